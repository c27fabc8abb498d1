"""The report as a workbook: the map with one column per source, sources, calculation, evidence, rules, decisions."""

from __future__ import annotations

from collections.abc import Iterator

from retoma.pipelines.quotes.pricing import wording
from retoma.pipelines.quotes.pricing.report import Document, Line, Report, fingerprint, to_json
from retoma.pipelines.quotes.pricing.xlsx import Cell, Sheet, workbook

DATA = "retoma"
"""The hidden sheet that carries the document, so that every figure can be derived again."""
_PIECE = 30_000


def render(document: Document) -> bytes:
    """The workbook of *document*; the same bytes for the same document."""
    return workbook([_map(document), _sources(document), _calculation(document), _rules(document), _data(document)])


def _bold(*texts: str) -> list[Cell]:
    return [Cell(text, "bold") for text in texts]


def _map(document: Document) -> Sheet:
    """The map: a row for each item, a column for each source; what is discarded is struck out, its reason below."""
    sheet = Sheet("Mapa de apuração")
    most = max((len(report.lines) for report in document.reports), default=0)
    sheet.add(*_bold(document.title))
    sheet.add(*_bold("Fechado em"), wording.moment(document.closed_at))
    sheet.add(*_bold("Verificação (SHA-256)"), fingerprint(document))
    sheet.add()
    columns = [f"Fonte {number}" for number in range(1, most + 1)]
    sheet.add(
        *_bold("Item", "Descrição", "Unidade", "Quantidade", *columns, "Método", "Resultado", "Total", "Valor do bem")
    )
    for report in document.reports:
        research = report.research
        prices = [_price(line) for line in report.lines]
        rest = [Cell(None)] * (most - len(prices))
        method = wording.CENTRALS[research.rules.central]
        worth = report.valuation.value if report.valuation else None
        figures = [Cell(each, "money bold") for each in (report.result, report.total, worth)]
        sheet.add(research.number, research.object, research.unit, research.quantity, *prices, *rest, method, *figures)
        reasons = [
            wording.reason(line, source) or None for line, source in zip(report.lines, research.sources, strict=True)
        ]
        if any(reasons):
            sheet.add(None, "Motivo do descarte", None, None, *reasons)
    sheet.add()
    total = Cell(document.total, "money bold")
    sheet.add(*_bold("Total global"), None, None, None, *[None] * most, None, None, total)
    return sheet


def _price(line: Line) -> Cell:
    return Cell(line.price, "money" if line.counts else "money struck")


def _sources(document: Document) -> Sheet:
    sheet = Sheet("Fontes")
    for report in document.reports:
        columns = list(_columns(report))
        sheet.add(*_bold(f"Item {report.research.number}", *(f"Fonte {line.number}" for line in report.lines)))
        for place, (name, _) in enumerate(columns[0] if columns else ()):
            struck = name in {"Preço nominal", "Preço corrigido"}
            cells = [
                Cell(column[place][1], "struck" if struck and not line.counts else "plain")
                for column, line in zip(columns, report.lines, strict=True)
            ]
            sheet.add(Cell(name, "bold"), *cells)
        sheet.add()
    return sheet


def _columns(report: Report) -> Iterator[list[tuple[str, str]]]:
    for line, source in zip(report.lines, report.research.sources, strict=True):
        yield list(wording.column(line, source))


def _calculation(document: Document) -> Sheet:
    sheet = Sheet("Memória de cálculo")
    for report in document.reports:
        sheet.add(*_bold(f"Item {report.research.number}"))
        for name, told in wording.results(report):
            sheet.add(name, told)
        for told in report.memory:
            sheet.add(None, told)
        for told in report.alerts:
            sheet.add(Cell("Alerta", "bold"), told)
        for decision in report.research.decisions:
            sheet.add(f"{wording.moment(decision.at)} {decision.by}", f"{decision.what}: {decision.reason}")
        sheet.add()
    return sheet


def _rules(document: Document) -> Sheet:
    sheet = Sheet("Método e parâmetros")
    for report in document.reports:
        sheet.add(*_bold(f"Item {report.research.number}"))
        for name, told in wording.header(report):
            sheet.add(name, told)
        sheet.add()
    return sheet


def _data(document: Document) -> Sheet:
    sheet = Sheet(DATA, is_hidden=True)
    text = to_json(document).decode()
    for start in range(0, len(text), _PIECE):
        sheet.add(text[start : start + _PIECE])
    return sheet
