"""The words of a report, which its readers know: those of Brazilian public bodies."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

from retoma.pipelines.quotes.ports import Evidence, Refusal, SourceKind
from retoma.pipelines.quotes.pricing.domains import NO_PAGE
from retoma.pipelines.quotes.pricing.report import Line, Report, Source
from retoma.pipelines.quotes.pricing.screenshots import NO_BROWSER
from retoma.pipelines.quotes.pricing.statistics import Central, Discard

KINDS = {
    SourceKind.OFFICIAL: "Sistema oficial de preços",
    SourceKind.CONTRACT: "Contratação pública similar",
    SourceKind.TABLE: "Tabela de referência",
    SourceKind.SHOP: "Sítio eletrônico de domínio amplo",
    SourceKind.SUPPLIER: "Cotação direta com fornecedor",
    SourceKind.INVOICE: "Nota fiscal eletrônica",
    SourceKind.BANK: "Banco de preços próprio",
}
CENTRALS = {Central.MEAN: "Média", Central.MEDIAN: "Mediana", Central.LOWEST: "Menor preço"}
DISCARDS = {
    Discard.OUTLIER: "Inconsistente com os demais",
    Discard.UNFEASIBLE: "Inexequível",
    Discard.EXCESSIVE: "Excessivamente elevado",
}
REFUSALS = {
    Refusal.TIMEOUT: "A página não respondeu a tempo",
    Refusal.PRICE_MISMATCH: "Preço da página difere do anunciado",
    Refusal.EXTRACTION_FAILED: "Preço não identificado",
    Refusal.INVALID_PRICE: "Preço fora dos limites",
    Refusal.PAGE_LOAD: "Página indisponível",
    Refusal.SCREENSHOT: "Sem captura de tela",
    Refusal.BLOCKED_BY_SITE: "Bloqueado pelo site",
    Refusal.NETWORK: "Site inacessível",
    Refusal.NO_STORE_LINK: "Sem endereço da loja",
    Refusal.BLOCKED_DOMAIN: "Loja excluída pelas regras",
    Refusal.FOREIGN_DOMAIN: "Loja estrangeira",
    Refusal.LISTING_PAGE: "Página de listagem",
    Refusal.DUPLICATE_DOMAIN: "Loja já considerada",
    Refusal.SPEC_MISMATCH: "Especificação divergente",
    Refusal.INSTALMENT_PRICE: "Preço de parcela",
    Refusal.OLD_PRICE: "Preço antigo (riscado)",
    Refusal.FOREIGN_CURRENCY: "Moeda estrangeira",
    Refusal.SOLD_OUT: "Produto esgotado",
    Refusal.TOO_OLD: "Preço fora do prazo ou sem data",
    Refusal.OUTSIDE_BLOCK: "Fora do bloco escolhido",
    Refusal.BY_PERSON: "Recusado pelo pesquisador",
    Refusal.OTHER: "Outro motivo",
}
NO_PICTURES = {
    NO_BROWSER: "não há Chromium nesta máquina",
    NO_PAGE: "a resposta do serviço não é uma página",
}


def reais(amount: Decimal | None) -> str:
    """An amount of money as Brazilians write it."""
    return "–" if amount is None else f"R$ {amount:,.2f}".translate(str.maketrans(",.", ".,"))


def number(amount: Decimal) -> str:
    """A plain number as Brazilians write it."""
    return f"{amount.normalize():f}".replace(".", ",")


def _years(count: int) -> str:
    return "1 ano" if count == 1 else f"{count} anos"


def percent(amount: Decimal | None) -> str:
    """A percentage as Brazilians write it."""
    return "–" if amount is None else f"{amount.normalize():f} %".replace(".", ",")


def moment(at: datetime | None) -> str:
    """Date and hour, with the zone."""
    return "–" if at is None else at.strftime("%d/%m/%Y %H:%M:%S ") + (at.tzname() or "")


def reason(line: Line, source: Source) -> str:
    """Why a price does not count; empty for one that does. What a person wrote stands there in full."""
    if line.counts:
        return ""
    told = DISCARDS[line.discarded] if line.discarded else REFUSALS[line.refused or Refusal.OTHER]
    if not source.by:
        return told
    return f"{told}: {source.reason} ({source.by})" if source.reason else f"{told} ({source.by})"


def no_picture(evidence: Evidence) -> str:
    """Why a piece of evidence has no picture."""
    return NO_PICTURES.get(evidence.without_screenshot or "", "a captura falhou")


def header(report: Report) -> Iterator[tuple[str, str]]:
    """What a report says about itself: object, who, when, method, thresholds."""
    research, rules = report.research, report.research.rules
    yield "Objeto", research.object
    if research.code:
        yield "Código do item", research.code
    for name, told in research.specifications.items():
        yield f"Especificação: {name}", told
    if research.query:
        yield "Consulta", research.query
    yield "Unidade e quantidade", f"{f'{research.quantity.normalize():f}'.replace('.', ',')} {research.unit}"
    if research.place:
        yield "Local", research.place
    yield "Pesquisador(a)", research.researcher
    yield "Data e hora da pesquisa", moment(research.researched_at)
    if research.legal_basis:
        yield "Fundamento", research.legal_basis
    yield "Método", CENTRALS[rules.central]
    yield "Mínimo de preços", str(rules.least)
    yield "Regra de discrepantes", _outliers(report)
    base = "da média dos demais" if rules.compared_with == "mean_of_others" else "da mediana"
    yield "Inexequível abaixo de", f"{percent(rules.unfeasible_percent)} {base}"
    yield "Excessivo acima de", f"{percent(rules.excessive_percent)} {base}"
    yield "CV que exige análise crítica", percent(rules.high_cv_percent)
    ages = sorted(research.max_days.items())
    yield "Prazo por tipo de fonte", "; ".join(f"{KINDS[kind]}: {days} dias" for kind, days in ages)
    yield "Índice de correção", _index(report)
    yield from _thing(report)
    if research.configuration:
        yield "Versão da configuração", research.configuration
    if research.suppliers_chosen_because:
        yield "Escolha dos fornecedores", research.suppliers_chosen_because


def _thing(report: Report) -> Iterator[tuple[str, str]]:
    """What the report says of the thing itself."""
    if asset := report.research.asset:
        yield "Estado de conservação", asset.conservation.value
        yield "Anos de uso", str(asset.years_used)
        yield "Vida útil futura (anos)", str(asset.years_left)
        if asset.book_value is not None:
            yield "Valor contábil líquido", reais(asset.book_value)
    for picture in report.research.pictures:
        yield "Fotografia do item (SHA-256)", picture.sha256


def _index(report: Report) -> str:
    index, wanted = report.research.index, report.research.index_wanted
    if index:
        return f"{index.index}, {index.source}, {index.dated:%d/%m/%Y}, SHA-256 {index.sha256}"
    return f"{wanted}: nenhuma tabela carregada" if wanted else "não aplicado"


def _outliers(report: Report) -> str:
    rules = report.research.rules
    match rules.outliers:
        case "iqr":
            return f"fora de {rules.iqr_factor} × a distância entre quartis"
        case "median":
            return f"a mais de {percent(rules.median_percent)} da mediana"
    return "nenhuma"


def column(line: Line, source: Source) -> Iterator[tuple[str, str]]:
    """What the column of a source says."""
    evidence = source.evidence
    yield "Tipo", KINDS[source.kind]
    yield "Fonte", " / ".join(filter(None, (source.provider, source.seller or source.domain)))
    yield "Produto", source.title
    yield "CNPJ", source.detail.get("cnpj", "–")
    yield "Endereço", source.url or (evidence.url if evidence else "–")
    yield "Data do preço", f"{source.dated:%d/%m/%Y}" if source.dated else "–"
    yield "Acesso", moment(evidence.captured_at if evidence else None)
    yield "Leitura", source.method.value
    yield "Preço nominal", reais(source.price) if source.currency == "BRL" else f"{source.currency} {source.price}"
    yield "Preço corrigido", _corrected(line)
    yield "Situação", "Considerado" if line.counts else "Descartado"
    yield "Motivo", reason(line, source) or "–"
    yield "SHA-256 da evidência", evidence.sha256 if evidence else "–"
    yield (
        "SHA-256 da captura",
        (evidence.screenshot_sha256 or f"sem captura: {no_picture(evidence)}") if evidence else "–",
    )


def _corrected(line: Line) -> str:
    if line.correction:
        return reais(line.correction.corrected)
    return f"sem correção: falta {line.uncorrected}" if line.uncorrected else "–"


def results(report: Report) -> Iterator[tuple[str, str]]:
    """The figures of a report."""
    for name, told in (("coletados", report.collected), ("considerados", report.figures)):
        if told:
            yield f"Preços {name}", str(told.count)
            yield f"Média ({name})", reais(told.mean)
            yield f"Mediana ({name})", reais(told.median)
            yield f"Menor ({name})", reais(told.lowest)
            yield f"Maior ({name})", reais(told.highest)
            yield f"Coeficiente de variação ({name})", percent(told.cv_percent)
            yield f"Variação entre menor e maior ({name})", percent(told.spread_percent)
    yield "Resultado unitário", reais(report.result)
    yield "Total", reais(report.total)
    yield from worth(report)


def worth(report: Report) -> Iterator[tuple[str, str]]:
    """The value of an asset: market price, each factor with its weight, value."""
    asset = report.research.asset
    if asset and asset.factors is None:
        yield "Valor do bem", "não calculado: o projeto não tem fatores de avaliação"
    if (found := report.valuation) and asset and asset.factors:
        weights = asset.factors.weights
        yield "Preço de mercado", reais(found.market)
        yield "Conservação (EC)", f"{asset.conservation.value}: {number(found.ec)}, peso {number(weights['ec'])}"
        yield "Período de uso (PU)", f"{_years(asset.years_used)}: {number(found.pu)}, peso {number(weights['pu'])}"
        yield (
            "Vida útil futura (VUF)",
            f"{_years(asset.years_left)}: {number(found.vuf)}, peso {number(weights['vuf'])}",
        )
        yield "Fator", f"{number(found.factor)} (configuração {found.version})"
        yield "Valor do bem", reais(found.value)
        movements = {"REVALUATION": "Reavaliação", "IMPAIRMENT": "Redução ao valor recuperável", "NONE": "Sem ajuste"}
        if found.movement:
            yield "Movimento contábil", f"{movements[found.movement]} ({reais(found.difference)})"
