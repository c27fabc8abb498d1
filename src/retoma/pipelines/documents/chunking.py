"""A text cut where its author cut it: at the clauses of a contract, the articles of a law, the chapters of a report."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from retoma.isolate import isolated
from retoma.pipelines.documents.model import Chunk
from retoma.providers import Extraction
from retoma.providers.local.headings import read_title
from retoma.providers.local.limits import READ_MEGABYTES

MOST_TOKENS = 2_000
OVERLAP_TOKENS = 200
CHARACTERS_PER_TOKEN = 3
"""An estimate on the safe side: a token of Portuguese or English prose has three to five letters, by every tokenizer
we know, so what we count as 2,000 is not more anywhere."""

SECONDS = 60.0
"""For a text of the largest size ten times what it takes. It is cut in the child in which documents are read: what is
wrong with our patterns, or with a text, ends there."""

_WORD = "primeir|segund|terceir|quart|quint|sext|s[ée]tim|oitav|non|d[ée]cim|vig[ée]sim|trig[ée]sim|[úu]nic"
_ORDINAL = (
    rf"(?:\d{{1,4}}(?:\.\d+)*(?:-[A-Z])?|[IVXLCDM]+|(?i:(?:{_WORD})[ao](?:[ -](?:{_WORD})[ao])?|"
    r"one|two|three|four|five|six|seven|eight|nine|ten))"
)
# A capital begins a heading; "a cláusula terceira deste contrato" that happens to begin a line does not.
_MARK = r"^[ \t#*_>]*"
_END = r"[ºªo°]?\.?(?!\w)"
_HEADINGS = {
    "cláusula": re.compile(rf"{_MARK}(?:Cl[áa]usula|CL[ÁA]USULA|Clause|CLAUSE)\s+{_ORDINAL}{_END}(?P<rest>.*)$"),
    "artigo": re.compile(rf"{_MARK}(?:Art(?:igo|\.)?|ART(?:IGO|\.)?|Article|ARTICLE)\s*{_ORDINAL}{_END}(?P<rest>.*)$"),
}
_PARAGRAPH = re.compile(rf"{_MARK}(?:§\s*\d+|§§|(?:Par[áa]grafo|PAR[ÁA]GRAFO)\s+{_ORDINAL}{_END})", re.MULTILINE)
_REFERENCE = re.compile(
    r"^[,;]?\s*(?:d[aeo]s?|dest[ae]|acima|supra|abaixo|retro|e|ou|of|above|below|and|or)\b(?!\s*[–—:-])|^[,;]"
)
_CHAPTERS = frozenset({"capítulo", "capitulo", "título", "titulo", "parte", "livro", "chapter", "part", "book"})
_LONGEST_TITLE = 160
_ONE_LINE = 100  # a longer one is not a title alone: the text goes on in it
_BREAKS = ("\n\n", "\n", ". ", "; ", ", ", " ")


@dataclass(frozen=True)
class Section:
    """A stretch of the text: from its heading to the next one."""

    start: int
    end: int
    type: str
    title: str | None


def tokens(text: str) -> int:
    """How many tokens *text* has, at most."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


@isolated(seconds=SECONDS, megabytes=READ_MEGABYTES)
def cut(extraction: Extraction) -> list[Chunk]:
    """The text of *extraction* in chunks of at most 2,000 tokens, none over a heading; a section that is longer is cut
    into several, and each of them begins with the last 200 tokens of the one before it.
    """
    text, starts, numbers = _joined(extraction)
    chunks: list[Chunk] = []
    for section in _joined_headings(text, list(_sections(text))):
        for start, end in _spans(text, section.start, section.end):
            content = text[start:end].strip()
            if not any(map(str.isalnum, content)):
                continue
            first = start + len(text[start:end]) - len(text[start:end].lstrip())
            chunks.append(
                Chunk(
                    place=len(chunks),
                    content=content,
                    section_type="parágrafo" if start > section.start and _PARAGRAPH.match(content) else section.type,
                    title=section.title,
                    page_start=numbers[bisect_right(starts, first) - 1],
                    page_end=numbers[bisect_right(starts, first + len(content) - 1) - 1],
                    token_count=tokens(content),
                )
            )
    return chunks


def _joined(extraction: Extraction) -> tuple[str, list[int], list[int]]:
    """The whole text, where each page begins in it, and the pages' numbers."""
    starts, numbers, text = [0], [1], ""
    parts: list[str] = []
    length = 0
    for place, page in enumerate(extraction.pages):
        if place == 0:
            starts, numbers = [0], [page.number]
        else:
            starts.append(length)
            numbers.append(page.number)
        told = page.text.rstrip("\n") + "\n"
        parts.append(told)
        length += len(told)
    text = "".join(parts)
    return text, starts, numbers


def _sections(text: str) -> Iterator[Section]:
    """From heading to heading; what stands before the first is general."""
    begun = Section(0, 0, "texto_geral", None)
    at = 0
    for line in text.splitlines(keepends=True):
        if heading := read_heading(line):
            if at > begun.start:
                yield replace(begun, end=at)
            begun = Section(at, at, *heading)
        at += len(line)
    yield replace(begun, end=at)


def read_heading(line: str) -> tuple[str, str] | None:
    """The type and the title of the section that *line* begins; None when it begins none."""
    stripped = line.strip()
    if not stripped:
        return None
    for type, pattern in _HEADINGS.items():
        if (found := pattern.match(stripped)) and not _REFERENCE.match(found["rest"]):
            return type, _title(stripped, found["rest"])
    title = read_title(stripped)
    if title is None:
        return None
    noun = title.pattern.removeprefix("named ")
    return ("capítulo" if noun in _CHAPTERS else "seção"), stripped.strip("#*_ ")[:_LONGEST_TITLE]


def _title(line: str, rest: str) -> str:
    """A heading of its own is a title whole; of an article that goes on in the same line, only its number."""
    line, rest = (re.sub(r"[#*_]+", "", part).strip() for part in (line, rest))
    number = line[: len(line) - len(rest)].rstrip() if rest else line
    return line if len(line) <= _ONE_LINE and not line.endswith((".", ";", ",")) else number.rstrip(" –—:-.")


def _joined_headings(text: str, sections: Sequence[Section]) -> Iterator[Section]:
    """A heading that is followed by another one, as a chapter by its first article, belongs to what follows."""
    waiting: Section | None = None
    for section in sections:
        joined = section
        if waiting is not None:
            title = f"{waiting.title} › {section.title}" if waiting.title else section.title
            joined = replace(section, start=waiting.start, title=(title or "")[:_LONGEST_TITLE] or None)
        body = text[section.start : section.end].strip()
        bare = section.title and len(body.splitlines()) <= 2 and len(body) <= _LONGEST_TITLE  # noqa: PLR2004
        if bare and not body.endswith((".", ";", ":")) and section is not sections[-1]:
            waiting = joined
            continue
        waiting = None
        yield joined
    if waiting is not None:
        yield waiting


def _spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """*start* to *end* in stretches that fit into a chunk, cut at the best place there is."""
    most, overlap = MOST_TOKENS * CHARACTERS_PER_TOKEN, OVERLAP_TOKENS * CHARACTERS_PER_TOKEN
    while end - start > most:
        cut_at = _best_break(text, start + most // 2, start + most)
        yield start, cut_at
        back = text.find(" ", max(start + 1, cut_at - overlap), cut_at)
        # A paragraph of a law begins a chunk as it is: its own words are context enough.
        start = cut_at if back < 0 or _PARAGRAPH.match(text, cut_at) else back + 1
    yield start, end


def _best_break(text: str, low: int, high: int) -> int:
    """Where to cut between *low* and *high*: before a paragraph, else after a line, a sentence, a word."""
    marks = list(_PARAGRAPH.finditer(text, low, high))
    if marks:
        return marks[-1].start()
    for sign in _BREAKS:
        if (at := text.rfind(sign, low, high)) >= 0:
            return at + len(sign)
    return high
