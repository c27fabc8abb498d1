"""Text as a PDF: headings, paragraphs, quotations and lists on A4, with bookmarks. Every reader has its two fonts."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_WIDTH, _HEIGHT, _MARGIN = 595, 842, 64
_SIZES = {
    "title": 22.0,
    "heading": 16.0,
    "subheading": 12.5,
    "text": 11.0,
    "quotation": 11.0,
    "item": 11.0,
    "small": 9.0,
}
_ABOVE = {"title": 0.0, "heading": 0.0, "subheading": 14.0, "text": 6.0, "quotation": 8.0, "item": 4.0, "small": 2.0}
_INDENT = {"quotation": 24.0, "item": 16.0, "small": 24.0}
_BOLD = {"title", "heading", "subheading"}
_LEADING = 1.4
_BOLD_WIDER = 1.07
# The widths of Helvetica from blank to tilde, in thousandths of its size.
_WIDTHS = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
    722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
    556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
    260, 334, 584,
)  # fmt: skip
_OTHER = {"—": 1000, "…": 1000, "–": 556, "“": 333, "”": 333, "‘": 222, "’": 222, "•": 350}


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of text and how it is set, such as "title", "heading" (which begins a page), "text" or "item"."""

    style: str
    text: str


def pdf(blocks: Sequence[Block], *, title: str, language: str) -> bytes:
    """The file. A letter that the fonts do not have is written as its nearest, or as a question mark."""
    pages: list[list[bytes]] = [[]]
    marks: list[tuple[str, int]] = []
    y = float(_HEIGHT - _MARGIN)
    for block in blocks:
        size = _SIZES[block.style]
        if block.style == "heading" and pages[-1]:
            pages.append([])
            y = float(_HEIGHT - _MARGIN)
        lines = list(_wrapped(block))
        if pages[-1]:
            y -= _ABOVE[block.style]
        for place, line in enumerate(lines):
            y -= size * _LEADING
            if y < _MARGIN:
                pages.append([])
                y = _HEIGHT - _MARGIN - size * _LEADING
            if not place and block.style in {"title", "heading"}:
                marks.append((block.text, len(pages)))
            x = _MARGIN + _INDENT.get(block.style, 0.0)
            font = b"F2" if block.style in _BOLD else b"F1"
            pages[-1].append(b"BT /%b %.1f Tf %.1f %.1f Td %b Tj ET" % (font, size, x, y, _literal(line)))
    return _file(pages, marks, title, language)


def _wrapped(block: Block) -> Iterator[str]:
    room = _WIDTH - 2 * _MARGIN - _INDENT.get(block.style, 0.0)
    line = ""
    for word in (f"• {block.text}" if block.style == "item" else block.text).split():
        for piece in _pieces(word, block.style, room):
            longer = f"{line} {piece}".strip()
            if line and _measured(longer, block.style) > room:
                yield line
                longer = piece
            line = longer
    if line:
        yield line


def _pieces(word: str, style: str, room: float) -> Iterator[str]:
    """*word*, in pieces when it is wider than a line."""
    while len(word) > 1 and _measured(word, style) > room:
        cut = max(1, int(len(word) * room / _measured(word, style)))
        yield word[:cut]
        word = word[cut:]
    yield word


def _measured(text: str, style: str) -> float:
    width = sum(_width(letter) for letter in text)
    return width / 1000 * _SIZES[style] * (_BOLD_WIDER if style in _BOLD else 1.0)


def _width(letter: str) -> int:
    base = unicodedata.normalize("NFD", letter)[0]
    place = ord(base) - ord(" ")
    return _OTHER.get(letter) or (_WIDTHS[place] if 0 <= place < len(_WIDTHS) else 556)


def _literal(text: str) -> bytes:
    encoded = b"".join(_encoded(letter) for letter in text)
    return b"(" + encoded.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)") + b")"


def _encoded(letter: str) -> bytes:
    for candidate in (letter, unicodedata.normalize("NFKD", letter)[:1]):
        try:
            return candidate.encode("cp1252")
        except UnicodeEncodeError:
            continue
    return b"?"


def _file(pages: Sequence[Sequence[bytes]], marks: Sequence[tuple[str, int]], title: str, language: str) -> bytes:
    count = len(pages)
    first_page, first_mark = 6, 6 + 2 * count
    kids = b" ".join(b"%d 0 R" % (first_page + 2 * place) for place in range(count))
    bodies = [
        b"<</Type/Catalog/Pages 2 0 R/Outlines 5 0 R/PageMode/UseOutlines/Lang(%b)>>" % language.encode("ascii"),
        b"<</Type/Pages/Kids[%b]/Count %d/MediaBox[0 0 %d %d]/Resources<</Font<</F1 3 0 R/F2 4 0 R>>>>>>"
        % (kids, count, _WIDTH, _HEIGHT),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold/Encoding/WinAnsiEncoding>>",
        _outline(first_mark, len(marks)),
    ]
    for place, lines in enumerate(pages):
        foot = b"BT /F1 9 Tf %d 36 Td (%d) Tj ET" % (_WIDTH // 2, place + 1)
        stream = b"\n".join([*lines, foot])
        bodies.append(b"<</Type/Page/Parent 2 0 R/Contents %d 0 R>>" % (first_page + 2 * place + 1))
        bodies.append(b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream))
    for place, (told, number) in enumerate(marks):
        near = b"/Prev %d 0 R" % (first_mark + place - 1) if place else b""
        near += b"/Next %d 0 R" % (first_mark + place + 1) if place + 1 < len(marks) else b""
        page = first_page + 2 * (number - 1)
        bodies.append(b"<</Title %b/Parent 5 0 R/Dest[%d 0 R/Fit]%b>>" % (_unicode(told), page, near))
    bodies.append(b"<</Title %b/Producer(Retoma)>>" % _unicode(title))
    return _assembled(bodies)


def _outline(first: int, count: int) -> bytes:
    if not count:
        return b"<</Type/Outlines/Count 0>>"
    return b"<</Type/Outlines/First %d 0 R/Last %d 0 R/Count %d>>" % (first, first + count - 1, count)


def _unicode(text: str) -> bytes:
    return b"<" + ("\ufeff" + text).encode("utf-16-be", "replace").hex().encode() + b">"


def _assembled(bodies: Sequence[bytes]) -> bytes:
    written = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
    places = []
    for number, body in enumerate(bodies, start=1):
        places.append(len(written))
        written += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return written + (
        b"xref\n0 %d\n0000000000 65535 f \n%btrailer\n<</Size %d/Root 1 0 R/Info %d 0 R>>\nstartxref\n%d\n%%%%EOF\n"
        % (len(bodies) + 1, table, len(bodies) + 1, len(bodies), len(written))
    )
