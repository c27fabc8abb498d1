"""PDFs that tests set line by line, each in a size and a weight of its own; nothing but the letters marks a heading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retoma.bench.evaluation import samples

_BOLD = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold/Encoding/WinAnsiEncoding>>"
_TOP, _BOTTOM, _LEFT, _LEADING = 780, 60, 56, 1.25


@dataclass(frozen=True, slots=True)
class Set:
    """A line as it is printed."""

    text: str
    size: float = 11
    bold: bool = False
    scaled: bool = False
    """The size stands in the matrix and not in the font, as some programs write it."""


def body(text: str, **how: float) -> list[Set]:
    """*text* in lines of a page's width."""
    return [Set(line, **how) for line in samples.wrapped(text) if line]  # type: ignore[arg-type]  # a size


def pdf(pages: Sequence[Sequence[Set]], outline: Sequence[tuple[str, int]] = ()) -> bytes:
    """A PDF with these lines on its pages."""
    written = samples.write_pdf([_stream(page) for page in pages], outline=outline, objects=[_BOLD])
    moved = written.replace(b"/F1 3 0 R>>", b"/F1 3 0 R/F2 4 0 R>>")
    return samples.assemble_pdf(_objects(moved))


def pages(lines: Sequence[Set], head: str = "") -> list[list[Set]]:
    """*lines* one below the other, on as many pages as they need, each below *head*."""
    found: list[list[Set]] = [[]]
    room = 0.0
    for line in lines:
        if room < line.size * _LEADING:
            found.append([Set(head, size=14)] if head else [])
            room = _TOP - _BOTTOM - 20
        found[-1].append(line)
        room -= line.size * _LEADING
    return found[1:]


def _stream(page: Sequence[Set]) -> bytes:
    y, parts = float(_TOP), []
    for line in page:
        y -= line.size * _LEADING
        text = line.text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
        font = b"F2" if line.bold else b"F1"
        in_font, in_matrix = (1.0, line.size) if line.scaled else (line.size, 1.0)
        parts.append(
            b"BT /%b %.2f Tf %.2f 0 0 %.2f %d %.2f Tm (%b) Tj ET"
            % (font, in_font, in_matrix, in_matrix, _LEFT, y, text)
        )
    return b"\n".join(parts)


def _objects(written: bytes) -> list[bytes]:
    """The objects of a PDF that was just written, for their places to be counted anew."""
    found, rest = [], written
    while b" obj\n" in rest:
        _, _, rest = rest.partition(b" obj\n")
        one, _, rest = rest.partition(b"\nendobj\n")
        found.append(one)
    return found
