"""DOCX: paragraphs and tables in order, headings as the outline, footnotes in brackets where they are referred to.

The XML is read directly: libraries that offer paragraphs leave out content controls and text boxes. Headers, footers,
comments and deleted text are not part of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from lxml import etree  # type: ignore[import-untyped]  # it has no types

from retoma.providers import Extraction, Page, Table
from retoma.providers.local import limits, markup
from retoma.providers.local.archives import Archive
from retoma.providers.local.errors import DocumentDamaged
from retoma.providers.local.outlines import Heading, chapters
from retoma.providers.local.trail import Trail

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_SIGNS = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}
_HEADING = re.compile(r"(?:heading|título|titulo)\s*([1-9])$", re.IGNORECASE)
_DOCUMENT = "word/document.xml"
_NOTES = {f"{_W}footnoteReference": "footnote", f"{_W}endnoteReference": "endnote"}


def read(file: Path, trail: Trail) -> Extraction:
    """The whole document as one page: page breaks depend on the printer."""
    trail.at("docx")
    with Archive(file) as archive:
        levels = _levels(archive.xml("word/styles.xml")) if "word/styles.xml" in archive else {}
        body = archive.xml(_DOCUMENT).find(f"{_W}body")
        notes = {id: text for kind in _NOTES.values() for id, text in _notes(archive, kind)}
    if body is None:
        raise DocumentDamaged(f"{_DOCUMENT} of {file.name} has no body.", next="Save it anew.", reader="docx")
    for fallback in list(body.iter(_FALLBACK)):  # the same text box again, for older programs
        fallback.clear()
    lines: list[str] = []
    headings: list[Heading] = []
    tables: list[Table] = []
    for block in _blocks(body):
        if block.tag == f"{_W}tbl":
            rows = tuple(tuple(_row(row, notes)) for row in block.iter(f"{_W}tr"))
            tables.append(Table(rows=rows, page=1))
            lines += ["", *map(markup.row_line, rows), ""]
        elif line := _text(block, notes):
            if (level := _level(block, levels)) is not None:
                headings.append(Heading(level, line, 1))
                lines += ["", line, ""]
            else:
                lines += [line, ""]
    pages = (Page(number=1, text=markup.clean("\n".join(lines))),)
    markup.check_size(file.name, pages, tables)
    return Extraction(
        pages=pages,
        tables=tuple(tables),
        outline=chapters(headings),
        headings=tuple((each.depth, each.title, each.page) for each in headings[: limits.OUTLINE]),
        reader="docx",
    )


def _blocks(body: etree._Element) -> Iterator[etree._Element]:
    """Paragraphs and tables in order; the paragraphs of a table belong to it."""
    inside: etree._Element | None = None
    for event, element in etree.iterwalk(body, events=("start", "end"), tag=(f"{_W}p", f"{_W}tbl")):
        if event == "end":
            inside = None if element is inside else inside
        elif inside is None:
            inside = element
            yield element


def _notes(archive: Archive, kind: str) -> Iterator[tuple[tuple[str, str], str]]:
    """The notes of *kind*, footnote or endnote, by kind and id; those that only draw a line have no text."""
    if (part := f"word/{kind}s.xml") in archive:
        for note in archive.xml(part).iter(f"{_W}{kind}"):
            text = " ".join(filter(None, (_text(each, {}) for each in note.iter(f"{_W}p"))))
            yield (kind, note.get(f"{_W}id", "")), text


def _row(row: etree._Element, notes: Mapping[tuple[str, str], str]) -> Iterator[str]:
    for cell in row.iter(f"{_W}tc"):
        yield " ".join(filter(None, (_text(each, notes) for each in cell.iter(f"{_W}p"))))


def _text(paragraph: etree._Element, notes: Mapping[tuple[str, str], str]) -> str:
    return "".join(_said(each, notes) for each in paragraph.iter()).strip()


def _said(element: etree._Element, notes: Mapping[tuple[str, str], str]) -> str:
    if element.tag == f"{_W}t":
        return element.text or ""
    if kind := _NOTES.get(element.tag):
        note = notes.get((kind, element.get(f"{_W}id", "")))
        return f" [{note}]" if note else ""
    return _SIGNS.get(element.tag, "")


def _level(paragraph: etree._Element, levels: dict[str, int]) -> int | None:
    """The depth of a heading, or None when it is none: by its own attribute, or by its style."""
    own = paragraph.find(f"{_W}pPr/{_W}outlineLvl")
    if own is not None:
        return _number(own)
    style = paragraph.find(f"{_W}pPr/{_W}pStyle")
    return None if style is None else levels.get(style.get(f"{_W}val", ""))


def _levels(styles: etree._Element) -> dict[str, int]:
    """The styles that are headings, and their depth."""
    found = {}
    for style in styles.iter(f"{_W}style"):
        outline, name = style.find(f"{_W}pPr/{_W}outlineLvl"), style.find(f"{_W}name")
        named = _HEADING.match("" if name is None else name.get(f"{_W}val", ""))
        level = int(named[1]) - 1 if named else None if outline is None else _number(outline)
        if level is not None:
            found[style.get(f"{_W}styleId", "")] = level
    return found


def _number(outline: etree._Element) -> int | None:
    value = outline.get(f"{_W}val", "")
    return int(value) if value.isdigit() and int(value) < 9 else None  # noqa: PLR2004  # 9 is body text
