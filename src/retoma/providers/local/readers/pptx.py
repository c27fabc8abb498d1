"""PPTX: each slide is a page, in the order of the show; the speaker's notes are left out."""

from __future__ import annotations

from pathlib import Path

from lxml import etree  # type: ignore[import-untyped]  # it has no types

from retoma.providers import Extraction, Page, Table
from retoma.providers.local import markup
from retoma.providers.local.archives import Archive
from retoma.providers.local.errors import DocumentDamaged
from retoma.providers.local.trail import Trail

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_PRESENTATION = "ppt/presentation.xml"
_TITLES = {"title", "ctrTitle"}


def read(file: Path, trail: Trail) -> Extraction:
    """The slides; their titles are the outline."""
    trail.at("pptx")
    pages, tables, titles = [], [], []
    with Archive(file) as archive:
        slides = archive.relations(_PRESENTATION)
        listed = list(archive.xml(_PRESENTATION).iter(f"{_P}sldId"))
        markup.check_pages(file.name, len(listed))
        for number, slide in enumerate(listed, start=1):
            trail.at("pptx", number)
            member = slides.get(slide.get(_ID, ""))
            if member is None:
                raise DocumentDamaged(f"{file.name} has lost slide {number}.", next="Save it anew.", reader="pptx")
            root = archive.xml(member)
            pages.append(Page(number=number, text=markup.clean("\n".join(_lines(root)))))
            tables += [
                Table(rows=tuple(tuple(map(_said, row.iter(f"{_A}tc"))) for row in table.iter(f"{_A}tr")), page=number)
                for table in root.iter(f"{_A}tbl")
            ]
            if title := _title(root):
                titles.append((title, number))
    markup.check_size(file.name, pages, tables)
    return Extraction(pages=tuple(pages), tables=tuple(tables), outline=tuple(titles), reader="pptx")


def _lines(root: etree._Element) -> list[str]:
    """The paragraphs in order; a row of a table is one line."""
    lines = []
    for element in root.iter(f"{_A}p", f"{_A}tr"):
        if element.tag == f"{_A}tr":
            lines.append(markup.row_line([_said(cell) for cell in element.iter(f"{_A}tc")]))
        elif next(element.iterancestors(f"{_A}tr"), None) is None:
            lines.append(_said(element))
    return lines


def _title(root: etree._Element) -> str:
    for shape in root.iter(f"{_P}sp"):
        place = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
        if place is not None and place.get("type") in _TITLES:
            return _said(shape)
    return ""


def _said(element: etree._Element) -> str:
    words = (each.text or "" if each.tag == f"{_A}t" else " " for each in element.iter(f"{_A}t", f"{_A}br", f"{_A}p"))
    return " ".join("".join(words).split())
