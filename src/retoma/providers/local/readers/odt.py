"""ODT: paragraphs, lists and tables in order, headings as the outline, footnotes where they stand. Comments and deleted
text are not part of the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lxml import etree  # type: ignore[import-untyped]  # it has no types

from retoma.providers import Extraction, Page, Table
from retoma.providers.local import limits, markup
from retoma.providers.local.archives import Archive
from retoma.providers.local.errors import DocumentDamaged
from retoma.providers.local.outlines import Heading, chapters
from retoma.providers.local.trail import Trail

_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_NOT_TEXT = (f"{_TEXT}tracked-changes", f"{_OFFICE}annotation", f"{_TEXT}note-citation", f"{_OFFICE}forms")
_PARAGRAPHS = (f"{_TEXT}p", f"{_TEXT}h")
_MOST_SPACES = 1_000


def read(file: Path, trail: Trail) -> Extraction:
    """The whole document as one page: page breaks depend on the printer."""
    trail.at("odt")
    with Archive(file) as archive:
        body = archive.xml("content.xml").find(f"{_OFFICE}body/{_OFFICE}text")
    if body is None:
        raise DocumentDamaged(f"content.xml of {file.name} has no text.", next="Save it anew.", reader="odt")
    etree.strip_elements(body, *_NOT_TEXT, with_tail=False)
    lines: list[str] = []
    headings: list[Heading] = []
    tables: list[Table] = []
    for block in _blocks(body):
        if block.tag == f"{_TABLE}table":
            rows = tuple(tuple(_row(row)) for row in block.iter(f"{_TABLE}table-row"))
            tables.append(Table(rows=rows, page=1))
            lines += ["", *map(markup.row_line, rows), ""]
        elif line := _said(block).strip():
            if block.tag == f"{_TEXT}h":
                headings.append(Heading(_level(block), line, 1))
            lines += [line, ""]
    pages = (Page(number=1, text=markup.clean("\n".join(lines))),)
    markup.check_size(file.name, pages, tables)
    return Extraction(
        pages=pages,
        tables=tuple(tables),
        outline=chapters(headings),
        headings=tuple((each.depth, each.title, each.page) for each in headings[: limits.OUTLINE]),
        reader="odt",
    )


def _blocks(body: etree._Element) -> Iterator[etree._Element]:
    """Paragraphs and tables in order; the paragraphs of a table or of a note belong to what holds them."""
    inside: etree._Element | None = None
    for event, element in etree.iterwalk(body, events=("start", "end"), tag=(*_PARAGRAPHS, f"{_TABLE}table")):
        if event == "end":
            inside = None if element is inside else inside
        elif inside is None:
            inside = element
            yield element


def _row(row: etree._Element) -> Iterator[str]:
    for cell in row.iter(f"{_TABLE}table-cell"):
        yield " ".join(filter(None, (_said(each).strip() for each in cell.iter(*_PARAGRAPHS))))


def _said(block: etree._Element) -> str:
    """The text of *block* in order. Without recursion, because the file decides the depth."""
    said: list[str] = []
    for event, element in etree.iterwalk(block, events=("start", "end")):
        if event == "start":
            said += [_sign(element), element.text or ""]
        elif element is not block:
            if element.tag == f"{_TEXT}note-body":
                said.append("]")
            said.append(element.tail or "")
    return "".join(said)


def _sign(element: etree._Element) -> str:
    match element.tag.removeprefix(_TEXT):
        case "s":
            count = element.get(f"{_TEXT}c", "1")
            return " " * (min(int(count), _MOST_SPACES) if count.isdigit() and len(count) < 6 else 1)  # noqa: PLR2004
        case "tab":
            return "\t"
        case "line-break":
            return "\n"
        case "note-body":
            return " ["
        case _:
            return ""


def _level(heading: etree._Element) -> int:
    level = heading.get(f"{_TEXT}outline-level", "1")
    return min(9, max(1, int(level))) - 1 if level.isdigit() and len(level) < 3 else 0  # noqa: PLR2004 - two digits
