"""What people wrote onto a PDF: the values of its form, and notes. It is no part of the pages' own text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pikepdf

from retoma.providers import Extraction, Field, Page
from retoma.providers.local import limits, markup

_DEPTH = 16
_CHOSEN = 50
_NOTES = ("/FreeText", "/Text", "/Highlight", "/Underline", "/StrikeOut", "/Squiggly", "/Stamp", "/Square", "/Circle")
"""Kinds of annotations whose text a person wrote; a link and the window of a note have none of their own."""


def fields_of(pdf: pikepdf.Pdf) -> tuple[Field, ...]:
    """Names and values of the fields that have one, and the page each stands on."""
    form = pdf.Root.get("/AcroForm")
    roots = form.get("/Fields") if isinstance(form, pikepdf.Dictionary) else None
    if not isinstance(roots, pikepdf.Array):
        return ()
    pages = {
        annotation.objgen: number
        for number, page in enumerate(pdf.pages, start=1)
        for annotation in _listed(page.obj.get("/Annots"))
    }
    found = []
    for name, value, widgets in _filled(roots, "", "", _DEPTH):
        page = next((pages[widget.objgen] for widget in widgets if widget.objgen in pages), 1)
        found.append(Field(name=name, value=value, confidence=1.0, page=page))
        if len(found) == limits.OUTLINE:
            break
    return tuple(found)


def notes_of(pdf: pikepdf.Pdf) -> dict[int, list[str]]:
    """The text of the annotations of each page that has some: typed onto it, stuck to it, said of a marked passage."""
    found: dict[int, list[str]] = {}
    room = limits.OUTLINE
    for number, page in enumerate(pdf.pages, start=1):
        for annotation in _listed(page.obj.get("/Annots")):
            said = _value(annotation.get("/Contents")) if annotation.get("/Subtype") in _NOTES else ""
            if said and room:
                room -= 1
                found.setdefault(number, []).append(said)
    return found


def with_written(reading: Extraction, fields: Sequence[Field], notes: Mapping[int, Sequence[str]]) -> Extraction:
    """*reading* with *fields* and *notes*, each also as a line below the text of its page."""
    if not fields and not notes:
        return reading
    pages = [
        _with_lines(page, [field for field in fields if field.page == page.number], notes.get(page.number, ()))
        for page in reading.pages
    ]
    return replace(reading, pages=tuple(pages), fields=tuple(fields))


def _with_lines(page: Page, fields: Sequence[Field], notes: Sequence[str]) -> Page:
    shown = " ".join(page.text.split())
    lines = [*(f"{field.name}: {field.value}" for field in fields), *(note for note in notes if note not in shown)]
    if not lines:
        return page
    # A page that shows only its form has been read completely by this; a note stands beside what it is about.
    source = "text" if fields else page.source
    return replace(page, text=markup.clean("\n".join([page.text, *lines])), source=source)


def _filled(nodes: Any, above: str, value: str, depth: int) -> Iterator[tuple[str, str, list[Any]]]:
    for node in _listed(nodes):
        own = node.get("/T")
        name = ".".join(filter(None, (above, str(own) if own is not None else "")))
        said = _value(node.get("/V")) or value
        kids = _listed(node.get("/Kids"))
        parts = [kid for kid in kids if "/T" in kid]
        if parts and depth:
            yield from _filled(parts, name, said, depth - 1)
        elif said:
            yield markup.clean(name) or "?", said, kids or [node]


def _listed(found: Any) -> list[Any]:
    if not isinstance(found, pikepdf.Array | list):
        return []
    return [each for each in found if isinstance(each, pikepdf.Dictionary)][: limits.OUTLINE]


def _value(found: Any) -> str:
    if isinstance(found, pikepdf.String):
        return " ".join(markup.clean(str(found)).split())
    if isinstance(found, pikepdf.Name):
        return "" if found == "/Off" else str(found).removeprefix("/")
    if isinstance(found, pikepdf.Array):  # several lines of a list that were chosen
        return ", ".join(_value(each) for each in list(found)[:_CHOSEN] if isinstance(each, pikepdf.String))
    return ""
