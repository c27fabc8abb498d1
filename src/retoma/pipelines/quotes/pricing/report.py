"""The report of a price research: a pure value that follows from its sources and its rules, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pydantic import SerializerFunctionWrapHandler, TypeAdapter, model_serializer

from retoma.pipelines.quotes.ports import Evidence, Method, Refusal, SourceKind
from retoma.pipelines.quotes.pricing.correction import Corrected, IndexTable, correct, missing_month
from retoma.pipelines.quotes.pricing.offers import cents
from retoma.pipelines.quotes.pricing.statistics import Discard, Figures, Judged, Rules, figures, judge
from retoma.pipelines.quotes.pricing.valuation import Conservation, Factors, Valuation, value

PUBLIC = frozenset({SourceKind.OFFICIAL, SourceKind.CONTRACT})
CORRECTED = PUBLIC | {SourceKind.BANK}
"""Whose prices were agreed on or looked up on an earlier day, and are corrected by the index."""
JUSTIFICATION_LENGTH = 100
"""Characters that the reason for fewer prices than the rule wants must have."""


def usual_days() -> Mapping[SourceKind, int]:
    """How many days old a price of each kind may be."""
    year, half = 365, 183
    return {
        SourceKind.OFFICIAL: year, SourceKind.CONTRACT: year, SourceKind.INVOICE: year, SourceKind.TABLE: half,
        SourceKind.SHOP: half, SourceKind.SUPPLIER: half, SourceKind.BANK: half,
    }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One price that was found, whether it counts or not."""

    key: str
    title: str
    provider: str
    kind: SourceKind
    method: Method
    price: Decimal | None
    """As the source says it, in money of *dated*; None where nothing could be read."""
    currency: str = "BRL"
    url: str | None = None
    domain: str | None = None
    seller: str | None = None
    dated: datetime | None = None
    """When the price was agreed on; None: when it was seen."""
    refused: Refusal | None = None
    reason: str = ""
    by: str | None = None
    """Who included or excluded it, when that was a person."""
    evidence: Evidence | None = None
    detail: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Something that a person decided about a quote."""

    at: datetime
    by: str
    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """The asset whose value is asked for, and the factors of the project; None: it has none, and so no value."""

    factors: Factors | None
    conservation: Conservation
    years_used: int
    years_left: int
    book_value: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Research:
    """Everything a report follows from."""

    number: str
    object: str
    researcher: str
    researched_at: datetime
    sources: tuple[Source, ...]
    rules: Rules = field(default_factory=Rules)
    max_days: Mapping[SourceKind, int] = field(default_factory=usual_days)
    index: IndexTable | None = None
    """By which old prices are corrected; None: they are not."""
    index_wanted: str | None = None
    """The index that the project asks for, whether there is a table of it or not."""
    code: str | None = None
    unit: str = "un"
    quantity: Decimal = Decimal(1)
    place: str | None = None
    query: str | None = None
    specifications: Mapping[str, str] = field(default_factory=dict)
    configuration: str | None = None
    """The version of the project's configuration."""
    legal_basis: str = ""
    """The text that a body wants printed; none is printed by itself."""
    justification: str | None = None
    """Why fewer prices than the rule wants are enough."""
    approved_by: str | None = None
    """The authority that approved it."""
    suppliers_chosen_because: str | None = None
    decisions: tuple[Decision, ...] = ()
    asset: Asset | None = None
    picture: Evidence | None = None
    """The photograph of the item."""
    more_pictures: tuple[Evidence, ...] = ()
    """The others, where there are several."""

    @property
    def pictures(self) -> list[Evidence]:
        """Every photograph of the item, in order."""
        return [*([self.picture] if self.picture else []), *self.more_pictures]

    @model_serializer(mode="wrap")
    def _as_closed(self, told: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without others they are not said: reports that were closed before there could be any keep their hash."""
        found: dict[str, Any] = told(self)
        if not self.more_pictures:
            found.pop("more_pictures")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A source as the report shows it."""

    number: int
    price: Decimal | None
    """In money of the day of the research."""
    counts: bool
    correction: Corrected | None = None
    uncorrected: str | None = None
    """The first month that the index would have to know, where an old price could not be corrected."""
    discarded: Discard | None = None
    refused: Refusal | None = None
    compared: Decimal | None = None
    bound: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What follows from a research."""

    research: Research
    lines: tuple[Line, ...]
    collected: Figures | None
    """Of every price that was read without a refusal."""
    figures: Figures | None
    """Of those that count."""
    result: Decimal | None
    total: Decimal | None
    valuation: Valuation | None
    alerts: tuple[str, ...]
    memory: tuple[str, ...]
    """The calculation, step by step, in the words of its readers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One report, or those of a batch, as they are closed: never changed afterwards."""

    title: str
    closed_at: datetime
    reports: tuple[Report, ...]
    total: Decimal | None


_DOCUMENT = TypeAdapter(Document)


def document(title: str, closed_at: datetime, *researches: Research) -> Document:
    """The closed document of *researches*."""
    reports = tuple(derive(each) for each in researches)
    totals = [report.total for report in reports if report.total is not None]
    return Document(
        title=title, closed_at=closed_at, reports=reports, total=sum(totals, Decimal(0)) if totals else None
    )


def to_json(told: Document) -> bytes:
    """The document as it is kept, hashed and carried along in its files."""
    return _DOCUMENT.dump_json(told)


def from_json(content: bytes) -> Document:
    """The document in *content*; pydantic's ValidationError says what does not fit."""
    return _DOCUMENT.validate_json(content)


def fingerprint(told: Document) -> str:
    """What tells this document from any other."""
    return hashlib.sha256(to_json(told)).hexdigest()


def derive(research: Research) -> Report:
    """The report that follows from *research*."""
    lines = [_line(number, source, research) for number, source in enumerate(research.sources, start=1)]
    open = [line for line in lines if line.refused is None and line.price is not None]
    judged = judge([line.price for line in open if line.price is not None], research.rules)
    seen = {line.number: _judged(line, each) for line, each in zip(open, judged, strict=True)}
    lines = [seen.get(line.number, line) for line in lines]
    collected = figures([line.price for line in open if line.price is not None])
    kept = figures([line.price for line in lines if line.counts and line.price is not None])
    result = kept.of(research.rules.central) if kept else None
    worth = _valuation(research.asset, result)
    return Report(
        research=research,
        lines=tuple(lines),
        collected=collected,
        figures=kept,
        result=result,
        total=None if result is None else cents(result * research.quantity),
        valuation=worth,
        alerts=tuple(_alerts(research, lines, kept, result)),
        memory=tuple(_memory(research, lines, kept, result, worth)),
    )


def _line(number: int, source: Source, research: Research) -> Line:
    if source.refused is not None or source.price is None:
        refused = source.refused or Refusal.EXTRACTION_FAILED
        return Line(number=number, price=source.price, counts=False, refused=refused)
    seen = source.dated or (source.evidence.captured_at if source.evidence else None)
    limit = research.max_days.get(source.kind)
    if seen is None or (limit is not None and seen < research.researched_at - timedelta(days=limit)):
        return Line(number=number, price=source.price, counts=False, refused=Refusal.TOO_OLD)
    return _of_today(number, source, source.price, research)


def _of_today(number: int, source: Source, price: Decimal, research: Research) -> Line:
    """The price in money of the day of the research, where the index can tell; else as it is, and the line says so."""
    table, wanted = research.index, research.index or research.index_wanted
    if wanted is None or source.dated is None or source.kind not in CORRECTED:
        return Line(number=number, price=cents(price), counts=True)
    since, until = _day(source.dated), _day(research.researched_at)
    missing = missing_month(table, since=since, until=until)
    if missing is not None or table is None:
        return Line(number=number, price=cents(price), counts=True, uncorrected=missing)
    corrected = correct(price, table, since=since, until=until)
    return Line(number=number, price=corrected.corrected, counts=True, correction=corrected)


def _day(moment: datetime) -> date:
    return moment.date()


def _judged(line: Line, judged: Judged) -> Line:
    return Line(
        number=line.number,
        price=line.price,
        counts=judged.discarded is None,
        correction=line.correction,
        uncorrected=line.uncorrected,
        discarded=judged.discarded,
        compared=None if judged.compared is None else cents(judged.compared),
        bound=None if judged.bound is None else cents(judged.bound),
    )


def _valuation(asset: Asset | None, market: Decimal | None) -> Valuation | None:
    if asset is None or asset.factors is None or market is None:
        return None
    return value(
        market,
        asset.factors,
        conservation=asset.conservation,
        years_used=asset.years_used,
        years_left=asset.years_left,
        book_value=asset.book_value,
    )


def _alerts(research: Research, lines: list[Line], kept: Figures | None, result: Decimal | None) -> list[str]:
    """What the rule asks a person to look at."""
    alerts = []
    counting = [research.sources[line.number - 1] for line in lines if line.counts]
    rules = research.rules
    if len(counting) < rules.least:
        why = research.justification or ""
        enough = len(why) >= JUSTIFICATION_LENGTH and research.approved_by
        alerts.append(
            f"Há {len(counting)} preço(s) válido(s); a regra pede {rules.least}. "
            + (
                f"Justificativa aprovada por {research.approved_by}: {why}"
                if enough
                else "Falta justificativa aprovada pela autoridade competente."
            )
        )
    if counting and not any(source.kind in PUBLIC for source in counting):
        alerts.append("Nenhum preço válido vem de sistema oficial ou de contratação pública; justificar a falta.")
    if kept and kept.cv_percent > rules.high_cv_percent:
        alerts.append(
            f"O coeficiente de variação ({_br(kept.cv_percent)} %) passa de {_br(rules.high_cv_percent)} %: "
            "exige análise crítica."
        )
    official_alone = bool(counting) and all(source.kind is SourceKind.OFFICIAL for source in counting)
    if official_alone and kept and result is not None and result > kept.median:
        alerts.append("Só há preços de sistema oficial, e o resultado passa da mediana deles.")
    if any(source.kind is SourceKind.SUPPLIER for source in counting) and not research.suppliers_chosen_because:
        alerts.append("Falta a razão da escolha dos fornecedores consultados.")
    return alerts + _not_done(research, lines)


def _not_done(research: Research, lines: list[Line]) -> list[str]:
    """What the project asks for and could not be calculated."""
    told = []
    if uncorrected := [line for line in lines if line.uncorrected is not None]:
        numbers = ", ".join(str(line.number) for line in uncorrected)
        told.append(f"Sem correção monetária: fonte(s) {numbers}, preço nominal. {_without_table(research)}")
    if research.asset and research.asset.factors is None:
        told.append("O valor do bem não foi calculado: a configuração do projeto não tem fatores de avaliação.")
    return told


def _without_table(research: Research) -> str:
    if research.index is None:
        return f"Nenhuma tabela do {research.index_wanted} foi carregada."
    index = research.index
    return f"A tabela do {index.index} de {index.dated:%d/%m/%Y} vai de {min(index.percents)} a {index.last}."


def _memory(
    research: Research, lines: list[Line], kept: Figures | None, result: Decimal | None, worth: Valuation | None
) -> list[str]:
    told = []
    for line in lines:
        if line.correction:
            each = line.correction
            told.append(
                f"Fonte {line.number}: {_br(each.nominal)} × {str(each.factor).replace('.', ',')} ({each.index}, "
                f"{each.since} a {each.until}, {each.months} mês(es)) = {_br(each.corrected)}"
            )
        if line.uncorrected is not None and line.price is not None:
            told.append(
                f"Fonte {line.number}: {_br(line.price)} sem correção: falta {line.uncorrected}. "
                f"{_without_table(research)}"
            )
        if line.discarded and line.price is not None:
            told.append(
                f"Fonte {line.number}: {_br(line.price)} descartado ({line.discarded}); comparado com "
                f"{_br(line.compared)}, limite {_br(line.bound)}"
            )
    prices = [line.price for line in lines if line.counts and line.price is not None]
    if kept is None or result is None:
        return [*told, "Nenhum preço válido: não há resultado."]
    sum_of = " + ".join(map(_br, prices))
    told += [
        f"Média = ({sum_of}) ÷ {kept.count} = {_br(kept.mean)}",
        f"Mediana de {'; '.join(map(_br, sorted(prices)))} = {_br(kept.median)}",
        f"Menor = {_br(kept.lowest)}; maior = {_br(kept.highest)}",
        f"Desvio padrão amostral = {_br(kept.deviation)}",
        f"CV = {_br(kept.cv_percent)} %; variação = {_br(kept.spread_percent)} %",
        f"Resultado ({research.rules.central}) = {_br(result)}",
        f"Total = {_br(result)} × {_number(research.quantity)} = {_br(cents(result * research.quantity))}",
    ]
    if worth and research.asset and research.asset.factors:
        weights = research.asset.factors.weights
        terms = " + ".join(
            f"{_number(each)} × {_number(weight)}"
            for each, weight in ((worth.ec, weights["ec"]), (worth.pu, weights["pu"]), (worth.vuf, weights["vuf"]))
        )
        told.append(f"Fator = {terms} = {_number(worth.factor)} (configuração {worth.version})")
        told.append(f"Valor do bem = {_br(worth.market)} × {_number(worth.factor)} = {_br(worth.value)}")
    return told


def _br(amount: Decimal | None) -> str:
    return "–" if amount is None else f"{amount:,.2f}".translate(str.maketrans(",.", ".,"))


def _number(amount: Decimal) -> str:
    return format(amount.normalize(), "f").replace(".", ",")
