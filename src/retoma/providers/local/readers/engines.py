"""The OCR engines: rapidocr, and tesseract beside it. Each takes a picture as it lies, turned or skew, and reads it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retoma.providers.local.errors import DocumentDamaged, OcrUnavailable
from retoma.providers.local.readers import order
from retoma.providers.local.readers.order import Box

Picture = NDArray[np.uint8]
"""Rows of pixels, blue, green and red."""

DPI = 200
_LANGUAGES = ("por", "eng")
_THREADS = 4

_UPRIGHT = 0.85
"""The mean score of letters that stand upright is above this: 0.99 on clean pages, 0.7 upside down."""

_LONG = 5
"""A box this many times as long as it is high says how the page is turned."""


def has_rapidocr() -> bool:
    """Whether rapidocr is installed; that it can be loaded is only known once it was."""
    return all(map(importlib.util.find_spec, ("rapidocr", "onnxruntime")))


def has_tesseract() -> bool:
    """Whether tesseract is installed with our languages."""
    return tesseract() is not None


# — tesseract —


@cache
def tesseract() -> tuple[str, bool] | None:
    """The path of tesseract, if it has our languages, and whether it can tell how a page is turned."""
    program = shutil.which("tesseract")
    if program is None:
        return None
    listed = subprocess.run([program, "--list-langs"], capture_output=True, text=True, check=False, timeout=20)
    known = set(listed.stdout.split())
    return (program, "osd" in known) if set(_LANGUAGES) <= known else None


def ask_tesseract(picture: Picture, where: str) -> str:
    """The text of *picture* by tesseract, which finds columns by itself and stands up what is turned; *where* names it
    in errors.
    """
    installed = tesseract()
    assert installed is not None
    program, turns = installed
    told = _run_tesseract(program, picture, ("--psm", "1") if turns else ())
    if told.returncode and turns:  # it gives up on a page with too few letters to tell how they stand
        told = _run_tesseract(program, picture, ())
    if told.returncode:
        raise DocumentDamaged(
            f"tesseract gave up on {where}: {' '.join(told.stderr.split())[-200:]}.",
            next="Is it a picture of text?",
            reader="tesseract",
        )
    return told.stdout


def _run_tesseract(program: str, picture: Picture, more: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    height, width, _ = picture.shape
    with tempfile.NamedTemporaryFile(suffix=".ppm") as file:
        file.write(f"P6 {width} {height} 255\n".encode() + picture[:, :, ::-1].tobytes())
        file.flush()
        return subprocess.run(
            [program, file.name, "stdout", "-l", "+".join(_LANGUAGES), "--dpi", str(DPI), *more],
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )


# — rapidocr —


@cache
def rapidocr() -> Any:
    """The engine with its models; made once in a process."""
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


def ask_rapidocr(picture: Picture) -> str:
    """The text of *picture* by rapidocr, in reading order. Upside down it is read again turned round."""
    boxes, texts, score = _found(picture)
    if texts and score < _UPRIGHT:
        other = _found(np.ascontiguousarray(picture[::-1, ::-1]))
        if other[2] > score:
            boxes, texts, score = other
    return "\n".join(order.lines(_upright(boxes, texts))) if texts else ""


def _found(picture: Picture) -> tuple[NDArray[np.float64], list[str], float]:
    """Boxes of four corners, their texts, and the mean score of a letter."""
    found = rapidocr()(picture)
    if found.boxes is None or not found.txts:
        return np.zeros((0, 4, 2)), [], 0.0
    weights = [len(text) for text in found.txts]
    return np.asarray(found.boxes, dtype=np.float64), list(found.txts), float(np.average(found.scores, weights=weights))


def _upright(boxes: NDArray[np.float64], texts: list[str]) -> list[Box]:
    """The boxes as they lie once the page stands upright and straight. Their letters were read in any case: rapidocr
    cuts out each line by its corners, and turns one that is higher than wide to the left.
    """
    along = np.linalg.norm(boxes[:, 1] - boxes[:, 0], axis=1)
    down = np.linalg.norm(boxes[:, 3] - boxes[:, 0], axis=1)
    letters = np.array([len(text) for text in texts])
    if letters[down > along].sum() * 2 > letters.sum():
        # (x, y) becomes (y, -x), and the corner that was at the upper right is now the first.
        boxes = np.stack((boxes[..., 1], -boxes[..., 0]), axis=-1)[:, [1, 2, 3, 0]]
        along, down = down, along
    long = along > down * _LONG
    if long.any():
        slope = boxes[long, 1] - boxes[long, 0]
        angle = float(np.median(np.arctan2(slope[:, 1], slope[:, 0])))
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        boxes = boxes @ turn
    return [
        Box(
            left=float(box[[0, 3], 0].mean()),
            top=float(box[[0, 1], 1].mean()),
            right=float(box[[1, 2], 0].mean()),
            bottom=float(box[[2, 3], 1].mean()),
            text=text,
        )
        for box, text in zip(boxes, texts, strict=True)
    ]
