"""HTML: what a person reads on the page, without menus and scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lxml import etree, html  # type: ignore[import-untyped]  # it has no types

from retoma.providers import Extraction, Page, Table
from retoma.providers.local import kinds, limits, markup
from retoma.providers.local.errors import DocumentDamaged
from retoma.providers.local.outlines import Heading, chapters
from retoma.providers.local.trail import Trail

_DROPPED = ("script", "style", "nav", "noscript", "template", "svg", "iframe", "object", "head")
_LINES = {
    "address", "article", "aside", "body", "br", "caption", "dd", "div", "dl", "dt", "figcaption", "figure", "footer",
    "form", "header", "hr", "html", "li", "main", "ol", "section", "tr", "ul",
}  # fmt: skip
_PARAGRAPHS = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "table", "blockquote", "pre"}
_NEW_LINE = "\x1e"  # several of these are one line end, unlike those of a <pre>
_SPACES = re.compile(r"\s+")
_NEW_LINES = re.compile(rf"{_NEW_LINE}(?:[ \t]*+{_NEW_LINE})*")
_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*+=\s*+(?:["']\s*+)?([\w-]{1,40})""", re.IGNORECASE)


def read(file: Path, trail: Trail) -> Extraction:
    """The text, headings as the outline, and tables."""
    trail.at("lxml")
    text, headings, tables = parts_of(decoded(file.read_bytes(), file.name), file.name, page=1)
    pages = (Page(number=1, text=text),)
    markup.check_size(file.name, pages, tables)
    return Extraction(
        pages=pages,
        tables=tuple(tables),
        outline=chapters(headings),
        headings=tuple((each.depth, each.title, each.page) for each in headings[: limits.OUTLINE]),
        reader="lxml",
    )


def decoded(content: bytes, name: str) -> str:
    """The text of *content*: in the encoding it declares, if that is valid, else by the rule for plain text."""
    if declared := _CHARSET.search(content, 0, 4096):
        try:
            return content.decode(declared[1].decode())
        except (LookupError, UnicodeDecodeError):
            pass
    if (text := kinds.decode(content)) is None:
        raise DocumentDamaged(
            f"{name} begins as text and continues as something else.", next="Find another copy.", reader="lxml"
        )
    return text


def parts_of(text: str, name: str, *, page: int) -> tuple[str, list[Heading], list[Table]]:
    """The content of an HTML document: text, headings, tables."""
    # lxml refuses an encoding declaration in text that is already decoded.
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", text.replace("\0", ""))
    try:
        parser = html.HTMLParser(huge_tree=False, remove_comments=True)
        root = html.document_fromstring(text, parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError) as error:
        raise DocumentDamaged(f"{name} is damaged HTML: {error}.", next="Save it anew.", reader="lxml") from error
    if any("depth" in told.message for told in parser.error_log):  # the parser stops there, and reports nothing else
        raise DocumentDamaged(f"{name} is nested deeper than any page is.", next="Save it anew.", reader="lxml")
    etree.strip_elements(root, *_DROPPED, with_tail=False)
    headings = [
        Heading(int(each.tag[1]) - 1, _line(each), page) for each in root.iter("h1", "h2", "h3", "h4", "h5", "h6")
    ]
    tables = [
        Table(rows=tuple(tuple(_line(cell) for cell in row.iter("td", "th")) for row in table.iter("tr")), page=page)
        for table in root.iter("table")
        if next(table.iterdescendants("table"), None) is None  # the others are only layout
    ]
    return _spoken(root), headings, [table for table in tables if any(any(row) for row in table.rows)]


def _line(element: etree._Element) -> str:
    return " ".join("".join(_walk(element)).split())


def _spoken(root: etree._Element) -> str:
    spoken = _NEW_LINES.sub("\n", "".join(_walk(root)))
    lines = (" ".join(line.split()) for line in spoken.split("\n"))
    return markup.clean("\n".join(lines))


def _walk(root: etree._Element) -> Iterator[str]:
    """The text in order, with line ends where a browser breaks. Without recursion, because the
    file decides the depth.
    """
    kept = 0  # how many <pre> are open, whose line ends count
    for event, element in etree.iterwalk(root, events=("start", "end")):
        kept += (1 if event == "start" else -1) if element.tag == "pre" else 0
        if element is not root:
            yield _break(element, event)
        said = element.text if event == "start" else element.tail if element is not root else None
        if said:
            yield said if kept else _SPACES.sub(" ", said)


def _break(element: etree._Element, event: str) -> str:
    if element.tag in _PARAGRAPHS:
        return "\n\n"
    if element.tag in _LINES:
        return _NEW_LINE
    is_followed = event == "end" and element.tag in {"td", "th"} and element.getnext() is not None
    return " | " if is_followed else ""
