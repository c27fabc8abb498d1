"""The sentences of a chapter with their places, and which of them can be read without the ones around."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from retoma.pipelines.books.ports import Chapter
from retoma.pipelines.books.text.chunks import Chunk
from retoma.pipelines.books.text.language import language_of
from retoma.providers.local.sentences import sentences as split

_ENDS = re.compile(r"[.!?…][\"”»')\]]*$")
_LEANS = re.compile(
    r"(?:[eE]|[mM]as|[pP]orém|[cC]ontudo|[tT]odavia|[eE]ntretanto|[aA]ssim|[eE]ntão|[pP]ortanto|[lL]ogo|[tT]ambém|"
    r"[aA]lém disso|[pP]or isso|[dD]aí|[nN]isso|[nN]isto|[dD]isso|[dD]isto|[pP]ois|[oO]u|[qQ]ue|"
    r"[eE]l[ea]s?|[iI]sso|[iI]sto|[aA]quilo|[eE]ss[ea]s?|[eE]st[ea]s?|[aA]quel[ea]s?|[tT]al|[tT]ais|[oO] mesmo|"
    r"[sS]eus?|[sS]uas?|[nN]ess[ea]s?|[dD]ess[ea]s?|[nN]el[ea]s?|[dD]el[ea]s?|[lL]he|"
    r"He|She|It|They|This|That|These|Those|His|Her|Hers|Their|Its|Him|Them|And|But|Or|So|Then|Thus|Therefore|However|"
    r"Nevertheless|Moreover|Also|Such|Hence|Yet|Which|Who|Whom|There)\b"
)
_POINTS_BACK = re.compile(
    r"(?:É o que|Foi o que|Foi então|Foi assim|(?:\S{1,40} ){0,3}(?:dest[ea]s?|dess[ea]s?|nest[ea]s?|ness[ea]s?|"
    r"disso|disto|daquel[ea]s?|naquilo))\b",
    re.IGNORECASE,
)
_FURNITURE = re.compile(
    r"^\W*\[?\d+\]?\W|\.{4}|\bhttps?:|\bwww\.|project gutenberg|\bisbn\b|©|\||\[\d+\]$|^(?:fig|tab)\w*\.? \d",
    re.IGNORECASE,
)
_SHORT, _LONG = 6, 45
_LETTERS = 0.7


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as it stands in the chapter, but for its line ends."""

    text: str
    start: int
    end: int
    readable: bool
    """Whole, of a length to be read, and without a word that points at what was said before."""

    @property
    def words(self) -> int:
        return len(self.text.split())


def sentences_of(text: str) -> list[Sentence]:
    """Every sentence of *text* in order."""
    found, place = [], 0
    for piece in split(text, language_of(text)):
        start = text.index(piece, place)
        place = start + len(piece)
        flat = " ".join(piece.split())
        spoken = text[max(0, start - 3) : start].strip() in {"-", "–", "—"}
        found.append(Sentence(flat, start, place, is_readable(flat) and not spoken))
    return found


def is_readable(sentence: str) -> bool:
    """Whether a reader understands *sentence* alone: whole, no page furniture, no pronoun without its noun."""
    first = next((each for each in sentence if each.isalnum()), "")
    words = sentence.split()
    letters = sum(map(str.isalpha, sentence)) / max(1, len("".join(words)))
    return (
        _SHORT <= len(words) <= _LONG
        and letters > _LETTERS
        and (first.isupper() or first.isdigit())
        and not sentence.isupper()
        and _ENDS.search(sentence) is not None
        and _LEANS.match(sentence.lstrip("\"“«'(")) is None
        and _POINTS_BACK.match(sentence) is None
        and _FURNITURE.search(sentence) is None
    )


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
