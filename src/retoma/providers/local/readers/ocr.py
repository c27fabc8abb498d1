"""OCR of pictures: with tesseract where it is installed with Portuguese and English, else with rapidocr."""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retoma.providers import Extraction, Page
from retoma.providers.local import limits, markup
from retoma.providers.local.errors import DocumentDamaged, ImageTooLarge, OcrUnavailable
from retoma.providers.local.trail import Trail

Picture = NDArray[np.uint8]
"""Rows of pixels, blue, green and red."""

_DPI = 200
_LANGUAGES = ("por", "eng")
_THREADS = 4


def read_picture(file: Path, trail: Trail) -> Extraction:
    """The text in a picture; a TIFF may have several pages."""
    engine = _engine(file)
    pages = tuple(_read(_pictures(file), engine, trail))
    return Extraction(pages=pages, reader=engine)


def read_pages(file: Path, trail: Trail, *, numbers: Sequence[int]) -> Extraction:
    """The text in the pages *numbers* of a PDF, each rendered as a picture."""
    engine = _engine(file)
    pages = tuple(_read(_rendered(file, numbers, trail), engine, trail))
    return Extraction(pages=pages, reader=engine)


def available() -> str | None:
    """The OCR engine that is installed here; None when there is none."""
    if _tesseract():
        return "tesseract"
    return "rapidocr" if all(map(importlib.util.find_spec, ("rapidocr", "onnxruntime"))) else None


def _engine(file: Path) -> str:
    if engine := available():
        return engine
    raise OcrUnavailable(
        f"{file.name} is a picture of text, and no OCR is installed.",
        next="pip install 'retoma[ocr]', or install tesseract with its Portuguese and English.",
    )


@cache
def _tesseract() -> str | None:
    """The path of tesseract, if it has our languages."""
    program = shutil.which("tesseract")
    if program is None:
        return None
    listed = subprocess.run([program, "--list-langs"], capture_output=True, text=True, check=False, timeout=20)
    return program if set(_LANGUAGES) <= set(listed.stdout.split()) else None


def _read(pictures: Iterable[tuple[int, Picture]], engine: str, trail: Trail) -> Iterator[Page]:
    ask = _ask_tesseract if engine == "tesseract" else _ask_rapidocr
    for number, picture in pictures:
        trail.at(engine, number)
        yield Page(number=number, text=markup.clean(ask(picture)), source="ocr")


# — the engines —


def _ask_tesseract(picture: Picture) -> str:
    program = _tesseract()
    assert program is not None
    height, width, _ = picture.shape
    with tempfile.NamedTemporaryFile(suffix=".ppm") as file:
        file.write(f"P6 {width} {height} 255\n".encode() + picture[:, :, ::-1].tobytes())
        file.flush()
        told = subprocess.run(
            [program, file.name, "stdout", "-l", "+".join(_LANGUAGES), "--dpi", str(_DPI)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
    if told.returncode:
        raise DocumentDamaged(
            f"tesseract gave up on a picture: {' '.join(told.stderr.split())[-200:]}.",
            next="Is it a picture of text?",
            reader="tesseract",
        )
    return told.stdout


@cache
def _rapidocr() -> Any:
    try:
        from rapidocr import RapidOCR  # noqa: PLC0415  # two seconds, and not needed where tesseract is
    except ImportError as error:  # a missing system library shows only here
        raise OcrUnavailable(
            f"rapidocr is installed and cannot be loaded: {error}.",
            next="Repair it: pip install --force-reinstall rapidocr",
        ) from error

    return RapidOCR(
        params={
            "Global.use_cls": False,  # the orientation classifier turns long lines upside down
            "Global.log_level": "critical",
            "EngineConfig.onnxruntime.intra_op_num_threads": min(_THREADS, os.cpu_count() or 1),
        }
    )


def _ask_rapidocr(picture: Picture) -> str:
    found = _rapidocr()(picture)
    if found.boxes is None or not found.txts:
        return ""
    return "\n".join(_lines([(*_frame(box), text) for box, text in zip(found.boxes, found.txts, strict=True)]))


def _frame(box: NDArray[np.float32]) -> tuple[float, float, float]:
    """Middle, height and left edge of a box of four corners."""
    return float(box[:, 1].mean()), float(np.ptp(box[:, 1])), float(box[:, 0].min())


def _lines(words: Sequence[tuple[float, float, float, str]]) -> Iterator[str]:
    """Boxes as lines: boxes at the same height are one line, from left to right."""
    line: list[tuple[float, str]] = []
    level = -math.inf
    for middle, height, left, text in sorted(words):
        if line and middle - level > height / 2:
            yield "  ".join(text for _, text in sorted(line))
            line = []
        if not line:
            level = middle
        line.append((left, text))
    if line:
        yield "  ".join(text for _, text in sorted(line))


# — the pictures —


def _rendered(file: Path, numbers: Sequence[int], trail: Trail) -> Iterator[tuple[int, Picture]]:
    from retoma.providers.local.readers import pdf  # noqa: PLC0415  # not needed for pictures

    with pdf.opened_or_repaired(file, trail) as document:
        for number in numbers:
            page = document[number - 1]
            width, height = page.get_size()
            # A poster is rendered with a lower resolution: its letters are larger too.
            scale = min(_DPI / 72, math.sqrt(limits.PIXELS / max(1.0, width * height)))
            bitmap = page.render(scale=scale, may_draw_forms=False)
            yield number, np.ascontiguousarray(bitmap.to_numpy()[:, :, :3])
            bitmap.close()
            page.close()


def _pictures(file: Path) -> Iterator[tuple[int, Picture]]:
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
            next=f"Scan or save it with {_DPI} dots per inch.",
        )


def _flat(frame: Any) -> Picture:
    """The pixels as a person sees them: rotated as the camera says, on white where it is transparent."""
    from PIL import Image, ImageOps  # noqa: PLC0415  # as above

    frame = ImageOps.exif_transpose(frame)
    if frame.mode in {"RGBA", "LA", "PA"} or "transparency" in frame.info:
        frame = frame.convert("RGBA")
        frame = Image.alpha_composite(Image.new("RGBA", frame.size, "white"), frame)
    return np.ascontiguousarray(np.asarray(frame.convert("RGB"))[:, :, ::-1])
