"""The report as a PDF: header, one column per source, figures, calculation, alerts, decisions, pictures of pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from retoma.pipelines.quotes.pricing import pdf, wording
from retoma.pipelines.quotes.pricing.report import Document, Line, Report, Source, fingerprint, to_json

ATTACHED = "retoma-report.json"
"""The document itself, carried along so that every figure can be derived again."""

_MARGIN = 36.0
_WIDE = pdf.WIDTH - 2 * _MARGIN
_NAMES = 96.0
_IN_A_BAND = 4
_SIZE = 7.0
_STEP = 9.0
_FOOT = 30.0
_PICTURE = 300.0
_STRUCK = frozenset({"Preço nominal", "Preço corrigido"})


def render(document: Document, pictures: Mapping[str, bytes] | None = None) -> bytes:
    """The file of *document*, with *pictures* by their SHA-256; the same bytes for the same of both."""
    writer = _Writer(fingerprint(document))
    writer.heading(document.title, size=13)
    writer.pairs([("Fechado em", wording.moment(document.closed_at))])
    for report in document.reports:
        _write(writer, report, pictures or {})
    if len(document.reports) > 1:
        writer.heading("Total global")
        writer.pairs([("Total", wording.reais(document.total))])
    return writer.file(document)


def _write(writer: _Writer, report: Report, pictures: Mapping[str, bytes]) -> None:
    research = report.research
    writer.heading(f"Item {research.number}: {research.object}", size=11)
    writer.pairs(wording.header(report))
    writer.heading("Mapa de apuração")
    sources = list(zip(report.lines, research.sources, strict=True))
    for start in range(0, len(sources), _IN_A_BAND):
        writer.band(sources[start : start + _IN_A_BAND])
    writer.heading("Resultado")
    writer.pairs(wording.results(report))
    writer.heading("Memória de cálculo")
    writer.lines(report.memory)
    if report.alerts:
        writer.heading("Alertas e justificativas")
        writer.lines(report.alerts)
    if research.decisions:
        writer.heading("Inclusões, exclusões e decisões")
        writer.lines(f"{wording.moment(each.at)} {each.by}: {each.what}. {each.reason}" for each in research.decisions)
    _evidence(writer, sources, pictures)


def _evidence(writer: _Writer, sources: list[tuple[Line, Source]], pictures: Mapping[str, bytes]) -> None:
    shown = [(line, source.evidence) for line, source in sources if source.evidence]
    if not shown:
        return
    writer.heading("Evidências")
    for line, evidence in shown:
        writer.lines([f"Fonte {line.number}: {evidence.url}, {wording.moment(evidence.captured_at)}"])
        writer.lines([f"Arquivo {evidence.blob}, SHA-256 {evidence.sha256}"])
        if evidence.screenshot_sha256 is None:
            writer.lines([f"Sem captura de tela: {wording.no_picture(evidence)}"])
            continue
        writer.lines([f"Captura de tela, SHA-256 {evidence.screenshot_sha256}"])
        picture = pdf.png(pictures.get(evidence.screenshot_sha256, b""))
        if picture:
            writer.picture(picture)


class _Writer:
    """Writes from top to bottom, and turns the page."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._pages: list[pdf.Page] = []
        self._pictures: list[pdf.Picture] = []
        self._turn()

    def heading(self, told: str, *, size: float = 9.5) -> None:
        lines = pdf.wrap(told, _WIDE, size, bold=True)
        self._room(len(lines) * (size + 3) + 2 * _STEP)
        self._y -= 6
        for line in lines:
            self._y -= size + 3
            self._page.text(_MARGIN, self._y, line, size=size, bold=True)
        self._y -= 3

    def pairs(self, pairs: Iterable[tuple[str, str]]) -> None:
        """A name and what it is, line by line."""
        for name, told in pairs:
            names = pdf.wrap(name, _NAMES + 50, _SIZE, bold=True)
            values = pdf.wrap(told, _WIDE - _NAMES - 56, _SIZE)
            self._row([(_MARGIN, names, True, False), (_MARGIN + _NAMES + 56, values, False, False)])

    def lines(self, told: Iterable[str]) -> None:
        for each in told:
            self._row([(_MARGIN, pdf.wrap(each, _WIDE, _SIZE), False, False)])

    def band(self, sources: list[tuple[Line, Source]]) -> None:
        """A table with a column for each of *sources*; the price of one that is discarded is struck out."""
        width = (_WIDE - _NAMES) / _IN_A_BAND
        columns = [(line, list(wording.column(line, source))) for line, source in sources]
        titles = [
            (_MARGIN + _NAMES + place * width, [f"Fonte {line.number}"], True, False)
            for place, (line, _) in enumerate(columns)
        ]
        self._row(titles)
        for number, (name, _) in enumerate(columns[0][1]):
            cells = [(_MARGIN, pdf.wrap(name, _NAMES - 6, _SIZE, bold=True), True, False)]
            for place, (line, told) in enumerate(columns):
                struck = name in _STRUCK and not line.counts and told[number][1] != "–"
                wrapped = pdf.wrap(told[number][1], width - 6, _SIZE)
                cells.append((_MARGIN + _NAMES + place * width, wrapped, False, struck))
            self._row(cells)
        self._y -= 4

    def picture(self, picture: pdf.Picture) -> None:
        scale = min(_WIDE / picture.width, _PICTURE / picture.height)
        width, height = picture.width * scale, picture.height * scale
        self._room(height + 8)
        self._y -= height + 4
        self._page.picture(len(self._pictures), _MARGIN, self._y, width, height)
        self._pictures.append(picture)
        self._y -= 4

    def file(self, document: Document) -> bytes:
        for number, page in enumerate(self._pages, start=1):
            foot = f"Verificação SHA-256 {self._code}   página {number} de {len(self._pages)}"
            page.text(_MARGIN, _FOOT - 10, foot, size=6)
        return pdf.write(self._pages, self._pictures, title=document.title, attached=(ATTACHED, to_json(document)))

    def _row(self, cells: list[tuple[float, list[str], bool, bool]]) -> None:
        """Lines of text side by side; a row that is higher than what is left of the page begins a new one."""
        height = max((len(lines) for _, lines, _, _ in cells), default=1)
        self._room(min(height * _STEP, pdf.HEIGHT / 2))
        done = 0
        while done < height:
            fits = max(1, int((self._y - _FOOT) // _STEP))
            for x, lines, bold, struck in cells:
                for place, told in enumerate(lines[done : done + fits], start=1):
                    y = self._y - place * _STEP
                    self._page.text(x, y, told, size=_SIZE, bold=bold)
                    if struck:
                        self._page.line(x, y + 2.3, x + pdf.measure(told, _SIZE, bold=bold), y + 2.3)
            drawn = min(fits, height - done)
            done += drawn
            self._y -= drawn * _STEP
            if done < height:
                self._turn()

    def _room(self, height: float) -> None:
        if self._y - height < _FOOT:
            self._turn()

    def _turn(self) -> None:
        self._page = pdf.Page()
        self._pages.append(self._page)
        self._y = pdf.HEIGHT - _MARGIN
