"""Workbooks, the least of them: text and numbers in cells, a few styles, the same bytes for the same content."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from io import BytesIO
from xml.sax.saxutils import escape, quoteattr

_EPOCH = (1980, 1, 1, 0, 0, 0)
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_LONGEST = 32_000  # characters of a cell
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"

_HIDDEN = ' state="hidden"'

STYLES = {"plain": 0, "bold": 1, "struck": 2, "money": 3, "money struck": 4, "money bold": 5}
_STYLES = (
    f'{_XML}<styleSheet xmlns="{_MAIN}"><numFmts count="1"><numFmt numFmtId="164" formatCode="#,##0.00"/></numFmts>'
    '<fonts count="3"><font><sz val="10"/><name val="Arial"/></font><font><b/><sz val="10"/><name val="Arial"/></font>'
    '<font><strike/><sz val="10"/><name val="Arial"/></font></fonts>'
    '<fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill>'
    '</fills><borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs><cellXfs count="6">'
    + "".join(
        f'<xf numFmtId="{number}" fontId="{font}" fillId="0" borderId="0" xfId="0" applyFont="1" applyNumberFormat="1" '
        'applyAlignment="1"><alignment wrapText="1" vertical="top"/></xf>'
        for number, font in ((0, 0), (0, 1), (0, 2), (164, 0), (164, 2), (164, 1))
    )
    + '</cellXfs><cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
)


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a cell, and how."""

    value: str | int | Decimal | None
    style: str = "plain"


@dataclass(slots=True)
class Sheet:
    """Rows of cells under a name."""

    name: str
    rows: list[list[Cell]] = field(default_factory=list)
    is_hidden: bool = False

    def add(self, *cells: Cell | str | int | Decimal | None) -> None:
        """Add a row."""
        self.rows.append([each if isinstance(each, Cell) else Cell(each) for each in cells])


def workbook(sheets: Sequence[Sheet]) -> bytes:
    """The file."""
    numbered = list(enumerate(sheets, start=1))
    files: dict[str, str] = {
        "[Content_Types].xml": _content_types(len(sheets)),
        "_rels/.rels": _relations({"rId1": ("officeDocument", "xl/workbook.xml")}),
        "xl/workbook.xml": f'{_XML}<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
        + "".join(
            f'<sheet name={quoteattr(sheet.name[:31])} sheetId="{number}"{_HIDDEN if sheet.is_hidden else ""}'
            f' r:id="rId{number}"/>'
            for number, sheet in numbered
        )
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": _relations(
            {f"rId{number}": ("worksheet", f"worksheets/sheet{number}.xml") for number, _ in numbered}
            | {f"rId{len(sheets) + 1}": ("styles", "styles.xml")}
        ),
        "xl/styles.xml": _STYLES,
    }
    files |= {f"xl/worksheets/sheet{number}.xml": _sheet(sheet) for number, sheet in numbered}
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), text, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _content_types(sheets: int) -> str:
    parts = {"workbook": "sheet.main", "styles": "styles"}
    named = [f'<Override PartName="/xl/{name}.xml" ContentType="{_TYPES}.{kind}+xml"/>' for name, kind in parts.items()]
    named += [
        f'<Override PartName="/xl/worksheets/sheet{number}.xml" ContentType="{_TYPES}.worksheet+xml"/>'
        for number in range(1, sheets + 1)
    ]
    return (
        f'{_XML}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>' + "".join(named) + "</Types>"
    )


def _relations(targets: Mapping[str, tuple[str, str]]) -> str:
    told = "".join(
        f'<Relationship Id="{id}" Type="{_OFFICE}/{kind}" Target="{target}"/>' for id, (kind, target) in targets.items()
    )
    return f'{_XML}<Relationships xmlns="{_RELATIONS}">{told}</Relationships>'


def _sheet(sheet: Sheet) -> str:
    width = max((len(row) for row in sheet.rows), default=1)
    rows = "".join(f'<row r="{number}">{_cells(row, number)}</row>' for number, row in enumerate(sheet.rows, start=1))
    columns = f'<cols><col min="1" max="{max(width, 1)}" width="24" customWidth="1"/></cols>'
    return f'{_XML}<worksheet xmlns="{_MAIN}">{columns}<sheetData>{rows}</sheetData></worksheet>'


def _cells(row: Iterable[Cell], number: int) -> str:
    told = []
    for place, cell in enumerate(row):
        at = f'r="{_letters(place)}{number}" s="{STYLES[cell.style]}"'
        match cell.value:
            case None:
                continue
            case Decimal() | int():
                told.append(f"<c {at}><v>{cell.value}</v></c>")
            case str():
                # As text and never as a formula, whatever a page called its product.
                text = escape(_FORBIDDEN.sub("", cell.value)[:_LONGEST])
                told.append(f'<c {at} t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>')
    return "".join(told)


def _letters(place: int) -> str:
    letters = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        letters = chr(65 + rest) + letters
    return letters
