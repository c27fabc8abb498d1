"""A book that is summed up, as a value: what exports are made from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from retoma.pipelines.books.ports import LeftOut, Summary
from retoma.pipelines.books.text.executive import Entry, executive


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedChapter:
    """A chapter, what is said of it, and whether that holds."""

    number: str
    title: str
    words: int
    pages: tuple[int, ...]
    summary: Summary
    passed: bool
    percentage: float
    """Of its chunks, those that were read."""
    reasons: tuple[str, ...] = ()
    """Why it did not pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedBook:
    """All that a reader gets of a book."""

    session: str
    title: str
    language: str
    """The code "pt" or "en"."""
    chapters: tuple[FinishedChapter, ...]
    finished_at: datetime
    """With its time zone."""
    author: str = ""
    left_out: tuple[LeftOut, ...] = ()
    pages: int = 0
    """Of the source; 0 when it has none."""
    page_address: str = ""
    """Where a page of the source opens, with ``{page}`` for its number and ``{chapter}`` for that of the chapter; empty
    when nowhere."""

    @property
    def passed(self) -> bool:
        """Whether every chapter passed."""
        return bool(self.chapters) and all(chapter.passed for chapter in self.chapters)

    @property
    def pages_read(self) -> int:
        """Pages that chapters were made from."""
        return len({page for chapter in self.chapters for page in chapter.pages})

    @property
    def executive(self) -> tuple[Entry, ...]:
        """The whole book from its chapters."""
        return executive([(each.number, each.title, each.summary) for each in self.chapters])

    def page_link(self, chapter: FinishedChapter, page: int | None) -> str:
        """Where *page* of the source opens, in the text of *chapter*; empty when that is not known."""
        if page is None:
            return ""
        return self.page_address.replace("{chapter}", quote(chapter.number, safe="")).replace("{page}", str(page))


def heading(chapter: FinishedChapter) -> str:
    """The name of a chapter: its number and title, or the one that says both."""
    return chapter.title if chapter.title in {chapter.number, ""} else f"{chapter.number}. {chapter.title}"
