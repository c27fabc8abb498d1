"""EPUB: each part of the book a page, in reading order, by the reader of HTML."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from lxml import etree  # type: ignore[import-untyped]  # it has no types

from retoma.providers import Extraction, Page, Table
from retoma.providers.local import markup
from retoma.providers.local.archives import Archive
from retoma.providers.local.errors import DocumentDamaged, DocumentEncrypted
from retoma.providers.local.outlines import Heading, chapters
from retoma.providers.local.readers import html
from retoma.providers.local.trail import Trail

_CONTAINER = "META-INF/container.xml"
_RIGHTS = "META-INF/rights.xml"


def read(file: Path, trail: Trail) -> Extraction:
    """The parts that the spine lists."""
    trail.at("epub")
    pages: list[Page] = []
    headings: list[Heading] = []
    tables: list[Table] = []
    with Archive(file) as archive:
        if _RIGHTS in archive:
            raise DocumentEncrypted(f"{file.name} is protected against copying.", next="Ask for an open copy.")
        parts = _spine(archive, file)
        markup.check_pages(file.name, len(parts))
        for number, part in enumerate(parts, start=1):
            trail.at("epub", number)
            text, found, more = html.parts_of(html.decoded(archive.read(part), part), part, page=number)
            pages.append(Page(number=number, text=text))
            headings += found
            tables += more
    markup.check_size(file.name, pages, tables)
    return Extraction(pages=tuple(pages), tables=tuple(tables), outline=chapters(headings), reader="epub")


def _spine(archive: Archive, file: Path) -> list[str]:
    package = next((each.get("full-path", "") for each in _named(archive.xml(_CONTAINER), "rootfile")), "")
    root = archive.xml(package)
    files = {each.get("id"): archive.resolve(package, unquote(each.get("href", ""))) for each in _named(root, "item")}
    parts = [files.get(each.get("idref")) for each in _named(root, "itemref")]
    if not parts or None in parts:
        raise DocumentDamaged(f"{file.name} does not say what its parts are.", next="Save it anew.", reader="epub")
    return [part for part in parts if part is not None]


def _named(root: etree._Element, name: str) -> list[etree._Element]:
    return list(root.iter(f"{{*}}{name}"))
