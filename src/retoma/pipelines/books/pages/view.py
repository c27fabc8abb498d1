"""How a session reads on its page: what is done, where it goes on, what it is made from."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from retoma.pipelines.books.contract import Checkpoint
from retoma.pipelines.books.model import Session, Standing
from retoma.pipelines.books.ports import LeftOut
from retoma.pipelines.books.reading import summary_of
from retoma.pipelines.books.text.executive import Entry, executive
from retoma.pipelines.books.voice import Say
from retoma.web.words import phrases

LENGTHS = ("short", "medium", "long")
_CELLS = 60
_MAP = 1000


def told_as(kind: str, word: str, say: Say) -> str:
    """The word of the page for one of the program's; as it is where the page has none."""
    key = f"books.{kind}.{word.replace(' ', '_')}"
    return say(key) if key in phrases("en") else word


def detectors_of(session: Session, say: Say) -> str:
    """What found the chapters; the many ways of writing a heading are one for a reader."""
    found: dict[str, None] = {}
    for word in re.split(r"[+,]", session.detector or ""):
        key = f"books.detector.{word.strip().replace(' ', '_')}"
        found.setdefault(say(key if key in phrases("en") else "books.detector.headings"))
    return ", ".join(found)


# — where it stands —


@dataclass(frozen=True, slots=True)
class Figures:
    """What is there of a session: done, saved, reusable, set aside, and the chapter at which it goes on."""

    saved: int
    reused: int
    open: tuple[Standing, ...]

    @property
    def next(self) -> Standing | None:
        """The resume point; None when nothing is left."""
        return self.open[0] if self.open else None


def figures_of(chapters: Sequence[Standing]) -> Figures:
    """Counted from every chapter."""
    return Figures(
        saved=sum(each.attempts for each in chapters),
        reused=sum(each.done and each.origin != "run" for each in chapters),
        open=tuple(each for each in chapters if not each.done),
    )


def verdict_of(session: Session) -> str | None:
    """PASS or FAIL of the whole book; None while chapters are open and none has failed."""
    if session.passed < session.done:
        return "FAIL"
    return "PASS" if session.state == "done" and session.done else None


def state_of(chapter: Standing) -> str:
    """How a chapter looks."""
    if not chapter.done:
        return "open"
    return "PASS" if chapter.passed else "FAIL"


# — pictures —


@dataclass(frozen=True, slots=True)
class Block:
    """A chapter on the map of a book: as wide as it has words."""

    x: float
    width: float
    chapter: Standing
    state: str


def map_of(chapters: Sequence[Standing]) -> list[Block]:
    """The chapters side by side, a thousand units together."""
    words = sum(max(1, each.words) for each in chapters)
    blocks, x = [], 0.0
    for each in chapters:
        width = _MAP * max(1, each.words) / words
        blocks.append(Block(x, width, each, state_of(each)))
        x += width
    return blocks


def cells_of(read: int, total: int) -> list[bool]:
    """A chapter as cells, one for each chunk; of very many chunks as many as can be told apart, never one too many."""
    if total <= _CELLS:
        return [place < read for place in range(total)]
    return [place < read * _CELLS // total for place in range(_CELLS)]


# — what it is made from —


@dataclass(frozen=True, slots=True)
class MadeFrom:
    """What was read of what is there."""

    pages: int
    read: int
    words: int
    words_read: int
    left_out: tuple[LeftOut, ...]
    provider: str
    model: str


def made_from(session: Session, chapters: Sequence[Standing]) -> MadeFrom:
    """Counted from the chapters that were read whole: one that was read in part counts as not read."""
    done = [each for each in chapters if each.done and each.processed_chunks == each.total_chunks]
    configuration = json.loads(session.configuration)
    return MadeFrom(
        pages=session.pages or 0,
        read=len({number for each in done for number in each.pages}),
        words=session.words,
        words_read=sum(each.words for each in done),
        left_out=tuple(
            LeftOut(kind=each["kind"], title=each["title"], pages=tuple(each["pages"]), words=each["words"])
            for each in json.loads(session.left_out)
        ),
        provider=str(configuration.get("provider", "")),
        model=str(configuration.get("model", "")),
    )


# — what it says —


def entries_of(results: dict[str, Checkpoint], length: str) -> tuple[Entry, ...]:
    """The whole book from its chapters: a sentence each, or a page; the long one is the summaries themselves."""
    chapters = [(number, made.chapter_summary.titulo, summary_of(made)) for number, made in results.items()]
    if length == "long":
        return tuple(Entry(number=number, title=title, points=(summary.text,)) for number, title, summary in chapters)
    return executive(chapters, words=0) if length == "short" else executive(chapters)


def spans_of(made: Checkpoint, length: int) -> list[tuple[float, float]]:
    """Where on a line of a thousand units nobody read."""
    unread = [] if made.retoma is None else made.retoma.unread
    return [(_MAP * start / max(1, length), _MAP * (end - start) / max(1, length)) for start, end in unread]
