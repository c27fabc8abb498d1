"""Parses XML without entities, external files or unlimited depth; and cleans text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from lxml import etree  # type: ignore[import-untyped]  # it has no types

from retoma.providers import Page, Table
from retoma.providers.local import limits
from retoma.providers.local.errors import DocumentDamaged, MarkupRefused, TextTooLong, TooManyPages

_DECLARATIONS = tuple(
    word.encode(encoding) for word in ("<!DOCTYPE", "<!ENTITY") for encoding in ("ascii", "utf-16-le", "utf-16-be")
)
LONGEST_DECLARATION = max(map(len, _DECLARATIONS))
# Characters that PostgreSQL, JSON or people cannot handle: controls, surrogates, non-characters.
_UNSPEAKABLE = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff\ufeff\uffff]")
# Anchored at the first blank: otherwise a long run of blanks would be scanned again from each of them.
_BLANKS = re.compile(r"(?<![ \t\u00a0])[ \t\u00a0]++\n")
# The rest of the word moves up to its line; digits and capitals after a hyphen are no rest of a word.
_DIVIDED = re.compile(
    r"(?<=[^\W\d_])([^\W\d_])[-\u00ad]\n[ \t]{0,20}([a-zß-öø-ÿ]{2,40}[^\s\w]{0,3})(?:[ \t]|$)\n?", re.MULTILINE
)
_MANY_LINES = re.compile(r"\n{3,}")
_WORDS = re.compile(r"\w+")


SOFT_HYPHEN = "\ufffe"
"""pdfium's sign for a word that was divided at the end of a line."""


def parse(content: bytes, what: str) -> etree._Element:
    """The root element of *content*; *what* is its name in errors."""
    refuse_declarations(content, what)
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        raise DocumentDamaged(
            f"The XML of {what} is damaged: {error.msg}.", next="Save the document anew and send it again."
        ) from error
    if root.getroottree().docinfo.doctype:  # in an encoding that the check of the bytes did not know
        raise _refused(what)
    return root


def refuse_declarations(content: bytes, what: str) -> None:
    """Raise when *content* declares a document type or entities: a few bytes of them can expand to gigabytes."""
    if any(each in content for each in _DECLARATIONS):
        raise _refused(what)


def _refused(what: str) -> MarkupRefused:
    return MarkupRefused(
        f"The XML of {what} declares a document type.",
        next="No document of this kind needs that, and attacks do; find out where it comes from.",
    )


def clean(text: str) -> str:
    """*text* with plain line ends and without unsupported characters."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
    return _MANY_LINES.sub("\n\n", _BLANKS.sub("\n", _UNSPEAKABLE.sub("", text))).strip("\n")


def undivided(text: str) -> str:
    """*text* without the hyphens that divide a word at the end of a line."""
    return _DIVIDED.sub(r"\1\2\n", text).rstrip("\n")


def words_kept(text: str, told: str) -> float:
    """The share of the words of *text* that *told* has, as often as it does."""
    want, have = Counter(_WORDS.findall(text)), Counter(_WORDS.findall(told))
    return (want & have).total() / max(1, want.total())


def row_line(cells: Sequence[str]) -> str:
    """A row of a table as a line of text."""
    return " | ".join(" ".join(cell.split()) for cell in cells)


def check_size(name: str, pages: Sequence[Page], tables: Iterable[Table] = ()) -> None:
    """Raise when the document *name* is too long to be sent from the child to its parent."""
    check_pages(name, len(pages))
    if (length := sum(len(page.text) for page in pages)) > limits.TEXT:
        raise TextTooLong(
            f"{name} has {length:,} characters; {limits.TEXT:,} is the limit.", next="Split the document."
        )
    if (cells := sum(len(row) for table in tables for row in table.rows)) > limits.TABLE_CELLS:
        raise TextTooLong(f"{name} has {cells:,} cells; {limits.TABLE_CELLS:,} is the limit.", next="Split the tables.")


def check_pages(name: str, count: int) -> None:
    """Raise when the document *name* has more pages than we read."""
    if count > limits.PAGES:
        raise TooManyPages(f"{name} has {count:,} pages; {limits.PAGES:,} is the limit.", next="Split the document.")
