"""The sentences of a chapter with their places, and which of them can be read without the ones around."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from retoma.pipelines.books.ports import Chapter
from retoma.pipelines.books.text import discourse
from retoma.pipelines.books.text.chunks import Chunk
from retoma.pipelines.books.text.discourse import Standing
from retoma.pipelines.books.text.language import language_of
from retoma.providers.local.sentences import sentences as split


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as it stands in the chapter, but for its line ends."""

    text: str
    start: int
    end: int
    standing: Standing
    paragraph: int
    """Which paragraph of the chapter it stands in."""

    @property
    def readable(self) -> bool:
        """Whole, of a length to be read, and without a word that points at what was said before."""
        return self.standing is Standing.ALONE

    @property
    def words(self) -> int:
        return len(self.text.split())


def sentences_of(text: str) -> list[Sentence]:
    """Every sentence of *text* in order."""
    found, place = [], 0
    language, known, starts = language_of(text), discourse.names(text), discourse.paragraphs(text)
    told_by_somebody = list(discourse.spoken(text, starts))
    for piece in split(text, language):
        start = text.index(piece, place)
        place = start + len(piece)
        said = discourse.within(told_by_somebody, start, place)
        line = flat(piece)
        standing = discourse.standing(line, language, known)
        if said:  # what leans on what somebody said before is understood nowhere else
            standing = Standing.SPOKEN if standing in {Standing.ALONE, Standing.SPOKEN} else Standing.APART
        found.append(Sentence(line, start, place, standing, bisect_right(starts, start)))
    return found


def is_readable(sentence: str) -> bool:
    """Whether a reader understands *sentence* alone: whole, no page furniture, no pronoun without its noun."""
    return discourse.standing(sentence, language_of(sentence)) is Standing.ALONE


def owners(sentences: Sequence[Sentence], chunks: Sequence[Chunk]) -> list[int]:
    """The chunk that each sentence belongs to: the first that has all of it; 0 when none has."""
    found, place = [], 0
    for sentence in sentences:
        while place < len(chunks) - 1 and chunks[place].end < sentence.end:
            place += 1
        chunk = chunks[place] if chunks else None
        whole = chunk is not None and chunk.start <= sentence.start and sentence.end <= chunk.end
        found.append(chunk.index if chunk is not None and whole else 0)
    return found


def page_at(chapter: Chapter, place: int) -> int | None:
    """The page of the character at *place*, where pages are known."""
    return next((page for start, page in reversed(chapter.page_starts) if start <= place), None)


def flat(text: str) -> str:
    """*text* on one line."""
    return " ".join(text.split())
