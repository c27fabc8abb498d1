"""OCR of pictures and of scanned pages: by rapidocr, and by tesseract where rapidocr cannot, or not in time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retoma.providers import Extraction, Page
from retoma.providers.local import limits, markup
from retoma.providers.local.errors import DocumentDamaged, ImageTooLarge, OcrUnavailable
from retoma.providers.local.readers import engines
from retoma.providers.local.readers.engines import DPI, Picture
from retoma.providers.local.trail import Trail

_FASTER = 3.0
"""Tesseract takes a third of the time of rapidocr, or less."""


def read_picture(file: Path, trail: Trail) -> Extraction:
    """The text in a picture; a TIFF may have several pages."""
    with_engines = _Engines(file, trail)
    pages = tuple(with_engines.read(pictures_in(file), frames_in(file)))
    return Extraction(pages=pages, reader=with_engines.named)


def read_pages(file: Path, trail: Trail, *, numbers: Sequence[int]) -> Extraction:
    """The text in the pages *numbers* of a PDF, each rendered as a picture."""
    with_engines = _Engines(file, trail)
    pages = tuple(with_engines.read(_rendered(file, numbers, trail), len(numbers)))
    return Extraction(pages=pages, reader=with_engines.named)


def available() -> str | None:
    """The OCR engine that is asked first here; None when there is none."""
    return "rapidocr" if engines.has_rapidocr() else "tesseract" if engines.has_tesseract() else None


class _Engines:
    """The engines that are installed. rapidocr is asked first, for it reads pages askew; tesseract reads the pages
    on which rapidocr finds nothing, and the last pages of a document that rapidocr alone would not read in time.
    """

    def __init__(self, file: Path, trail: Trail) -> None:
        self._file = file
        self._trail = trail
        self._used: dict[str, None] = {}
        self._tesseract = engines.has_tesseract()
        self._rapidocr = engines.has_rapidocr()
        if self._rapidocr:
            try:
                engines.rapidocr()
            except OcrUnavailable as error:
                if not self._tesseract:
                    raise OcrUnavailable(
                        f"{file.name} is a picture of text, and {error.message}", next=error.next
                    ) from error
                self._rapidocr = False
        if not self._rapidocr and not self._tesseract:
            raise OcrUnavailable(
                f"{file.name} is a picture of text, and no OCR is installed.",
                next="pip install 'retoma[ocr]', or install tesseract with its Portuguese and English.",
            )

    @property
    def named(self) -> str:
        """The engines that have read something, in the order in which they did."""
        return "+".join(self._used)

    def read(self, pictures: Iterable[tuple[int, Picture]], count: int) -> Iterator[Page]:
        """The pages of *pictures*, of which there are *count*."""
        slowest, late = 0.0, False
        for place, (number, picture) in enumerate(pictures):
            began = time.monotonic()
            # What is left must do for this page by rapidocr, and for the others by tesseract.
            late = late or self._trail.left < slowest * (1 + (count - place) / _FASTER)
            rapidly = self._rapidocr and not (late and self._tesseract)
            text = self._ask("rapidocr", number, picture) if rapidly else ""
            slowest = max(slowest, time.monotonic() - began)
            if self._tesseract and not text.strip():
                text = self._ask("tesseract", number, picture)
            yield Page(number=number, text=markup.undivided(markup.clean(text)), source="ocr")

    def _ask(self, engine: str, number: int, picture: Picture) -> str:
        self._trail.at(engine, number)
        self._used[engine] = None
        if engine == "rapidocr":
            return engines.ask_rapidocr(picture)
        return engines.ask_tesseract(picture, f"page {number} of {self._file.name}")


# — the pictures —


def _rendered(file: Path, numbers: Sequence[int], trail: Trail) -> Iterator[tuple[int, Picture]]:
    from retoma.providers.local.readers import pdf  # noqa: PLC0415  # not needed for pictures

    with pdf.opened_or_repaired(file, trail) as document:
        for number in numbers:
            page = document[number - 1]
            width, height = page.get_size()
            # A poster is rendered with a lower resolution: its letters are larger too.
            scale = min(DPI / 72, math.sqrt(limits.PIXELS / max(1.0, width * height)))
            bitmap = page.render(scale=scale, may_draw_forms=False)
            yield number, np.ascontiguousarray(bitmap.to_numpy()[:, :, :3])
            bitmap.close()
            page.close()


def frames_in(file: Path) -> int:
    """How many pictures a file holds; 1 when that cannot be told, for then it is damaged."""
    from PIL import Image  # noqa: PLC0415  # as below

    try:
        with Image.open(file) as image:
            return int(getattr(image, "n_frames", 1))
    except Exception:  # noqa: BLE001  # the reader below says what is wrong
        return 1


def pictures_in(file: Path) -> Iterator[tuple[int, Picture]]:
    from PIL import Image, ImageSequence, UnidentifiedImageError  # noqa: PLC0415  # comes with rapidocr

    Image.MAX_IMAGE_PIXELS = None  # we count before a single pixel is decoded
    try:
        with Image.open(file) as image:
            for number, frame in enumerate(ImageSequence.Iterator(image), start=1):
                markup.check_pages(file.name, number)
                _check_pixels(file, *frame.size)
                yield number, _flat(frame)
    except (
        UnidentifiedImageError,
        OSError,
        SyntaxError,
        ValueError,
        EOFError,
        TypeError,
        KeyError,
        IndexError,
    ) as error:
        why = " ".join(str(error).split())[:200]
        raise DocumentDamaged(
            f"{file.name} is a damaged picture: {why}.", next="Scan it again.", reader="pillow"
        ) from error


def _check_pixels(file: Path, width: int, height: int) -> None:
    if width * height > limits.PIXELS:
        raise ImageTooLarge(
            f"{file.name} has {width:,} × {height:,} pixels; {limits.PIXELS:,} in all is the limit.",
            next=f"Scan or save it with {DPI} dots per inch.",
        )


def _flat(frame: Any) -> Picture:
    """The pixels as a person sees them: rotated as the camera says, on white where it is transparent."""
    from PIL import Image, ImageOps  # noqa: PLC0415  # as above

    frame = ImageOps.exif_transpose(frame)
    if frame.mode in {"RGBA", "LA", "PA"} or "transparency" in frame.info:
        frame = frame.convert("RGBA")
        frame = Image.alpha_composite(Image.new("RGBA", frame.size, "white"), frame)
    return np.ascontiguousarray(np.asarray(frame.convert("RGB"))[:, :, ::-1])
