"""EPUB: each part of the book is a page, in reading order, read as HTML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from lxml import etree  # type: ignore[import-untyped]  # it has no types
from lxml import html as lxml_html

from retoma.providers import Extraction, Page, Table
from retoma.providers.local import limits, markup
from retoma.providers.local.archives import Archive
from retoma.providers.local.errors import DocumentDamaged, DocumentEncrypted
from retoma.providers.local.outlines import Heading, chapters
from retoma.providers.local.readers import html
from retoma.providers.local.trail import Trail

_CONTAINER = "META-INF/container.xml"
_RIGHTS = "META-INF/rights.xml"
_NCX = "application/x-dtbncx+xml"
_LONGEST_TITLE = 500


def read(file: Path, trail: Trail) -> Extraction:
    """The parts that the spine lists; the outline is the book's own navigation, or its headings."""
    trail.at("epub")
    pages: list[Page] = []
    headings: list[Heading] = []
    tables: list[Table] = []
    with Archive(file) as archive:
        if _RIGHTS in archive:
            raise DocumentEncrypted(f"{file.name} is protected against copying.", next="Ask for an open copy.")
        parts = _spine(archive, file)
        listed = _navigation(archive, parts)
        markup.check_pages(file.name, len(parts))
        for number, part in enumerate(parts, start=1):
            trail.at("epub", number)
            text, found, more = html.parts_of(html.decoded(archive.read(part), part), part, page=number)
            pages.append(Page(number=number, text=text))
            headings += found
            tables += more
    markup.check_size(file.name, pages, tables)
    return Extraction(
        pages=tuple(pages),
        tables=tuple(tables),
        outline=chapters(listed or headings),
        headings=tuple((each.depth, each.title, each.page) for each in headings[: limits.OUTLINE]),
        reader="epub",
    )


def _spine(archive: Archive, file: Path) -> list[str]:
    package = next((each.get("full-path", "") for each in _named(archive.xml(_CONTAINER), "rootfile")), "")
    root = archive.xml(package)
    files = {each.get("id"): archive.resolve(package, unquote(each.get("href", ""))) for each in _named(root, "item")}
    parts = [files.get(each.get("idref")) for each in _named(root, "itemref")]
    if not parts or None in parts:
        raise DocumentDamaged(f"{file.name} does not say what its parts are.", next="Save it anew.", reader="epub")
    return [part for part in parts if part is not None]


def _navigation(archive: Archive, parts: list[str]) -> list[Heading]:
    """The entries of the table of contents, of EPUB 3 or of EPUB 2; empty when there is none.

    Read as HTML, which is tolerant: a book with a broken list is still read.
    """
    package = next((each.get("full-path", "") for each in _named(archive.xml(_CONTAINER), "rootfile")), "")
    items = _named(archive.xml(package), "item")
    nav = next((each for each in items if "nav" in each.get("properties", "").split()), None)
    ncx = next((each for each in items if each.get("media-type") == _NCX), None)
    numbers = {part: number for number, part in reversed(list(enumerate(parts, start=1)))}
    for item in (nav, ncx):
        place = archive.resolve(package, unquote(item.get("href", ""))) if item is not None else ""
        if not place or place not in archive:
            continue
        try:
            text = html.decoded(archive.read(place), place)
            root = lxml_html.document_fromstring(text.partition("?>")[2] if text.startswith("<?xml") else text)
        except (DocumentDamaged, etree.ParserError, etree.XMLSyntaxError, ValueError):
            continue
        found = []
        for depth, title, target in _entries(root, is_nav=item is nav):
            number = numbers.get(archive.resolve(place, unquote(target.partition("#")[0])) or "")
            if number and title:
                found.append(Heading(depth, title[:_LONGEST_TITLE], number))
            if len(found) == limits.OUTLINE:
                break
        if found:
            return found
    return []


def _entries(root: etree._Element, *, is_nav: bool) -> Iterator[tuple[int, str, str]]:
    """Depth, title and target of each entry, in order."""
    if is_nav:
        lists = [each for each in root.iter("nav") if each.get("epub:type", "toc") == "toc"]
        for link in (link for each in lists[:1] for link in each.iter("a")):
            depth = sum(each.tag == "ol" for each in link.iterancestors()) - 1
            yield max(0, depth), " ".join("".join(link.itertext()).split()), link.get("href", "")
        return
    title = ""
    for each in root.iter("navlabel", "content"):
        if each.tag == "navlabel":
            title = " ".join("".join(each.itertext()).split())
        elif title:
            depth = sum(above.tag == "navpoint" for above in each.iterancestors()) - 1
            yield max(0, depth), title, each.get("src", "")
            title = ""


def _named(root: etree._Element, name: str) -> list[etree._Element]:
    return list(root.iter(f"{{*}}{name}"))
