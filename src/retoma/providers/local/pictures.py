"""Pages of documents as pictures for people, drawn in a child process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from retoma.errors import ConfigurationError, IsolatedCrash, IsolatedMemory, IsolatedTimeout
from retoma.isolate import Isolated
from retoma.providers.local.bytecode import compile_once
from retoma.providers.local.errors import ParserCrashed, ParserMemory, ParserTimeout

DRAWN = ("pdf", "png", "jpg", "tiff")
"""Kinds of which a page can be drawn."""

_MEGABYTES = 1_536
_READER = "retoma.providers.local.readers.picture:draw"
_NO_LETTERS = re.compile(r"[\W_]+")
_RUN = 24
"""Letters in a row by which a page is recognised that holds only a part of the words."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The picture of a page. *number* is the page, the first is 1; *found* when it is known to be the one wanted."""

    png: bytes
    number: int
    pages: int
    found: bool


async def drawn(
    file: Path, kind: str, *, words: str = "", number: int | None = None, mark: bool = True, timeout: float = 20.0
) -> Drawn:
    """The page of *file* on which *words* stand, marked unless *mark* is False; or page *number* when that is known.
    Where the words are not found it is the first page. Raises a DocumentUnreadable when it cannot be drawn, and a
    ConfigurationError when nothing here can draw.
    """
    await compile_once(_READER)
    isolated = Isolated(draw, seconds=timeout, megabytes=_MEGABYTES)
    try:
        return await isolated.run(file, kind, words, number, mark=mark, seconds=timeout)
    except IsolatedTimeout as error:
        raise ParserTimeout(f"{file.name} was still being drawn after {timeout:g} s.") from error
    except IsolatedMemory as error:
        raise ParserMemory(f"{file.name} wanted more memory than its drawing may have.") from error
    except IsolatedCrash as error:
        raise ParserCrashed(f"The drawing of {file.name} died.", signal=error.signal) from error


def page_with(words: str, pages: Iterable[tuple[int, str]]) -> int | None:
    """The number of the page, of *pages* with their text, that holds most of *words*; None when none holds any."""
    wanted, best, most = letters_in(words), None, 0
    for number, text in pages:
        share = share_of(wanted, letters_in(text))
        if share > most:
            best, most = number, share
    return best


def letters_in(text: str) -> str:
    """The letters and digits of *text* alone: readers join lines and divide columns each in their own way."""
    return _NO_LETTERS.sub("", text).casefold()


def share_of(wanted: str, letters: str) -> int:
    """How many runs of *wanted* stand in *letters*."""
    return sum(run in letters for run in _runs(wanted))


def _runs(letters: str) -> Iterator[str]:
    last = max(1, len(letters) - _RUN + 1)
    return (letters[start : start + _RUN] for start in range(0, last if letters else 0, _RUN))


def draw(file: Path, kind: str, words: str, number: int | None, *, mark: bool, seconds: float) -> Drawn:
    """In the child, and only there are the libraries loaded: the picture."""
    try:
        from retoma.providers.local.readers import picture  # noqa: PLC0415

        return picture.draw(file, kind, words, number, mark=mark, seconds=seconds)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed, and drawing a page needs it.", next="pip install 'retoma[local,ocr]'"
        ) from error
