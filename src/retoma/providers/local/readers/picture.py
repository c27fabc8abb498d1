"""A page drawn as a PNG, in the child: the page on which some words stand, with the words marked."""

from __future__ import annotations

import ctypes
import itertools
import math
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from retoma.providers.local import markup
from retoma.providers.local.errors import DocumentDamaged
from retoma.providers.local.pictures import Drawn, letters_in, share_of
from retoma.providers.local.trail import Trail

PIXELS = 2_500_000
"""Of a drawn page: A4 with 150 dots per inch has 2.2 million."""

_SHARPEST = 200 / 72
_LONGEST = 8_000
"""Pixels of one side; a receipt is long and narrow."""

_TINT = (255, 236, 130)
_LETTER = re.compile(r"[^\W_]")
_LAST_OF_ONE = "\uffff"
"""pdfium counts what comes after it as two."""


def draw(file: Path, kind: str, words: str, number: int | None, *, mark: bool, seconds: float = math.inf) -> Drawn:
    """The page of *file* on which *words* stand, or page *number* when that is known, else the first."""
    trail = Trail(seconds)
    return _pdf(file, words, number, trail, mark=mark) if kind == "pdf" else _picture(file, number, trail)


# — a PDF —


def _pdf(file: Path, words: str, number: int | None, trail: Trail, *, mark: bool) -> Drawn:
    import pypdfium2  # type: ignore[import-untyped]  # noqa: PLC0415  # it has no types; pictures do not need it

    from retoma.providers.local.readers import pdf  # noqa: PLC0415  # as above

    with pdf.opened_or_repaired(file, trail) as document:
        pages = len(document)
        markup.check_pages(file.name, pages)
        if not pages:
            raise DocumentDamaged(f"{file.name} has no pages.", next="Find another copy of it.", reader="pypdfium2")
        try:
            place = _place(document, letters_in(words), number, trail)
            trail.at("pypdfium2", place.number)
            pixels = _page(document, place, mark=mark)
        except pypdfium2.PdfiumError as error:
            raise DocumentDamaged(
                f"{file.name} is damaged on a page: {error}.", next="Find another copy of it.", reader="pypdfium2"
            ) from error
    return Drawn(png(pixels), place.number, pages, place.found)


class _Place(NamedTuple):
    """A page, and the *letters* of it that are marked, as pdfium counts them."""

    number: int
    found: bool
    letters: range = range(0)


def _place(document: Any, wanted: str, number: int | None, trail: Trail) -> _Place:
    """Where the letters *wanted* stand: all of them, else as many as any page has."""
    best, most = _Place(number or 1, found=number is not None), 0
    if not wanted:
        return best
    numbers = range(1, len(document) + 1) if number is None else [number]
    for each in numbers:
        trail.at("pypdfium2", each)
        text, places = _text(document, each)
        start = text.find(wanted)
        if start >= 0:
            return _Place(each, found=True, letters=range(places[start], places[start + len(wanted) - 1] + 1))
        share = share_of(wanted, text)
        if share > most:
            best, most = _Place(each, found=True), share
    return best


def _text(document: Any, number: int) -> tuple[str, list[int]]:
    """The letters of a page, and the place of each in the page's text."""
    page = document[number - 1]
    try:
        text_page = page.get_textpage()
        said = text_page.get_text_range()
        text_page.close()
    finally:
        page.close()
    letters: list[str] = []
    places: list[int] = []
    place = 0
    for sign in said:
        if _LETTER.match(sign):
            folded = sign.casefold()
            letters.append(folded)
            places += [place] * len(folded)
        place += 1 if sign <= _LAST_OF_ONE else 2
    return "".join(letters), places


def _page(document: Any, place: _Place, *, mark: bool) -> np.ndarray[Any, Any]:
    page = document[place.number - 1]
    try:
        width, height = page.get_size()
        bitmap = page.render(scale=_scale(width, height), may_draw_forms=False, rev_byteorder=True)
        pixels = np.array(bitmap.to_numpy()[:, :, :3], dtype=np.uint8)
        bitmap.close()
        if mark and place.letters:
            for box in _boxes(page, place.letters, pixels.shape[1], pixels.shape[0]):
                _marked(pixels, box)
    finally:
        page.close()
    return pixels


def _scale(width: float, height: float) -> float:
    area, side = max(1.0, width * height), max(1.0, width, height)
    return min(_SHARPEST, math.sqrt(PIXELS / area), _LONGEST / side)


def _boxes(page: Any, letters: range, width: int, height: int) -> Iterator[tuple[int, int, int, int]]:
    """Where the lines of *letters* stand in a picture of the page: left, top, right, bottom."""
    text_page = page.get_textpage()
    try:
        count = text_page.count_rects(letters.start, len(letters))
        rects = [text_page.get_rect(each) for each in range(count)]
    finally:
        text_page.close()
    for left, bottom, right, top in rects:
        corners = [_pixel(page, width, height, *point) for point in ((left, top), (right, bottom))]
        (a, b), (c, d) = corners
        yield min(a, c), min(b, d), max(a, c), max(b, d)


def _pixel(page: Any, width: int, height: int, x: float, y: float) -> tuple[int, int]:
    """A point of the page in its picture, also where the page is turned or cut."""
    from pypdfium2 import raw  # noqa: PLC0415  # as above

    across, down = ctypes.c_int(), ctypes.c_int()
    raw.FPDF_PageToDevice(page, 0, 0, width, height, 0, x, y, across, down)
    return across.value, down.value


def _marked(pixels: np.ndarray[Any, Any], box: tuple[int, int, int, int]) -> None:
    """Lay a tint over *box*: paper takes it, ink stays."""
    left, top, right, bottom = (max(0, each) for each in box)
    part = pixels[max(0, top - 2) : bottom + 3, max(0, left - 2) : right + 3]
    part[:] = np.minimum(part, np.array(_TINT, dtype=np.uint8))


# — a picture —


def _picture(file: Path, number: int | None, trail: Trail) -> Drawn:
    from PIL import Image  # noqa: PLC0415  # comes with rapidocr

    from retoma.providers.local.readers import ocr  # noqa: PLC0415  # as above

    wanted, pages = number or 1, ocr.frames_in(file)
    trail.at("pillow", wanted)
    frame = next(itertools.islice(ocr.pictures_in(file), wanted - 1, None), None)
    if frame is None:
        raise DocumentDamaged(f"{file.name} has no picture {wanted}.", next="Scan it again.", reader="pillow")
    image = Image.fromarray(np.ascontiguousarray(frame[1][:, :, ::-1]))
    scale = min(1.0, _scale(image.width, image.height))
    if scale < 1:
        image = image.resize((max(1, int(image.width * scale)), max(1, int(image.height * scale))))
    return Drawn(png(np.asarray(image)), wanted, pages, number is not None or pages == 1)


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """Red, green and blue as a PNG. Each row is written as its difference from the one above, which packs well."""
    height, width, _ = pixels.shape
    rows = np.ascontiguousarray(pixels, dtype=np.uint8).reshape(height, -1)
    above = np.vstack([np.zeros((1, rows.shape[1]), dtype=np.uint8), rows[:-1]])
    filtered = np.hstack([np.full((height, 1), 2, dtype=np.uint8), rows - above])
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, *zip(*parts, strict=True)))


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
