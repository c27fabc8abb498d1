"""Summarises chapters in their own sentences, without a key and without a network.

The weight of a sentence is how many others say something similar (0.65), how near it is to the title (0.20) and how
early it stands (0.15). The heaviest sentences that do not repeat a chosen one are taken, up to 400 words; a definition
or a rule that the choice missed is added as an addendum.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retoma.providers import Extraction, RequestRejected
from retoma.providers.local import rank, recall
from retoma.providers.local.chapters import chunks_of, find_chapters
from retoma.providers.local.encoder import Encoder, Matrix, best_encoder
from retoma.providers.local.sentences import language_of, sentences
from retoma.providers.local.summaries import Audit, Chapter, Coverage, Digest, Recall, Summary
from retoma.providers.local.threads import Waiting, beside

LEAST, MOST, AIM = 300, 500, 400
"""Words of a summary."""

KEY_POINTS, QUOTES, EXAMPLES = (5, 8), (2, 4), (0, 5)
_QUOTE_WORDS = (8, 45)
_PARAGRAPH_WORDS = 110
_FEW_EXAMPLES = 3
_AT_ONCE = 64

_EXAMPLE = re.compile(
    r"\b(por exemplo|p\. ?ex\.|a exemplo d|exemplo disso|como no caso|imagine|suponha|é o caso d|"
    r"for example|for instance|e\.g\.|such as|suppose|imagine|consider the case)\b",
    re.IGNORECASE,
)
_QUANTITY = re.compile(
    r"(R\$|US\$|[$€£])\s?\d|\b\d++([.,]\d++){0,5}\s?(%|[a-zà-ÿ]{3,})|"
    r"\b(vinte|trinta|quarenta|cinquenta|sessenta|setenta|oitenta|noventa|cem|cento|duzent[oa]s|mil|"
    r"twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand)\s[a-zà-ÿ]{3,}",
    re.IGNORECASE,
)
_FENCE = "```"
_SPOKEN = re.compile(r"[“”«»\"]")


class LocalSummarizer:
    """Finds chapters and summarises them; the same text always has the same summary."""

    provider = "local"

    def __init__(self, encoder: Encoder | None = None) -> None:
        self._encoder = encoder or best_encoder()
        self.model = f"{self._encoder.model}+lexrank"

    def chapters(self, extraction: Extraction) -> tuple[Chapter, ...]:
        """The chapters of a document; the whole as one when it has none."""
        return find_chapters(extraction)

    async def summarize(self, chapter: Chapter, *, timeout: float) -> Digest:
        """The summary of *chapter* and its coverage, without blocking the event loop."""
        return await beside(
            lambda waiting: self._summarize(chapter, waiting),
            timeout=timeout,
            what=f"To sum up chapter {chapter.number}",
        )

    def _summarize(self, chapter: Chapter, waiting: Waiting) -> Digest:
        source = _Source.of(chapter, self._encoder, waiting)
        points = recall.points(chapter, source.sentences, source.rows, source.weights)
        if source.is_short:
            chosen, addenda = list(range(len(source.sentences))), 0
        else:
            chosen, addenda = _chosen(source, recall.critical_places(points, source.sentences))
        covered = recall.measure(source.rows, chosen, points, source.sentences)
        summary = _told(chapter, source, chosen)
        chunks = len(chunks_of(chapter))
        return Digest(
            summary=summary,
            coverage=Coverage(
                number=chapter.number,
                title=chapter.title,
                total_chunks=chunks,
                processed_chunks=chunks,
                percentage=100.0,
                recall=covered,
                audit=_audit(chapter, summary, covered, addenda, short=source.is_short),
            ),
        )


@dataclass(frozen=True, slots=True)
class _Source:
    """The sentences of a chapter, with their vectors and weights."""

    language: str
    words: int
    sentences: list[str]
    lengths: NDArray[np.int64]
    rows: Matrix
    weights: NDArray[np.float64]

    @property
    def is_short(self) -> bool:
        """Whether it is too short to be summarised; counted in sentences, because signs and rules are not words."""
        return int(self.lengths.sum()) < LEAST

    @classmethod
    def of(cls, chapter: Chapter, encoder: Encoder, waiting: Waiting) -> _Source:
        language = language_of(chapter.text)
        prose = _prose(chapter.text)
        if len(prose.split()) < AIM:  # the code is the chapter
            prose = chapter.text
        found = [" ".join(each.split()) for each in sentences(prose, language)]
        if not found:
            raise RequestRejected(
                f"Chapter {chapter.number} has no word in it, and nothing cannot be summed up.",
                next="Was the document read right? Scanned pages need OCR.",
                provider="local",
                paid=False,
            )
        rows = _encoded(found, encoder, waiting)
        weights = rank.weights(found, rows, encoder.encode([chapter.title or found[0]])[0])
        lengths = np.array([len(each.split()) for each in found])
        return cls(language, len(chapter.text.split()), found, lengths, rows, weights)


def _prose(text: str) -> str:
    """*text* without code and without rows of tables."""
    lines = text.split("\n")
    fences = [place for place, line in enumerate(lines) if line == _FENCE]
    told, place = [], 0
    while place < len(lines):
        line = lines[place]
        after = bisect_right(fences, place) if line.startswith(_FENCE) else len(fences)
        if after < len(fences):
            line, place = "\n\n", fences[after]
        elif len(line) > 1 and line[0] == line[-1] == "|":
            line = "\n\n"
        told.append(line)
        place += 1
    return "\n".join(told)


def _encoded(found: Sequence[str], encoder: Encoder, waiting: Waiting) -> Matrix:
    rows = []
    for start in range(0, len(found), _AT_ONCE):
        waiting.check()
        rows.append(encoder.encode(found[start : start + _AT_ONCE]))
    return np.vstack(rows)


def _chosen(source: _Source, critical: Sequence[int]) -> tuple[list[int], int]:
    """The sentences of the summary, in order; and how many of them were added only for a critical point."""
    aim = AIM if source.words >= 2 * AIM else max(LEAST + 30, source.words // 2)
    taken = rank.diverse(source.rows, source.weights, source.lengths, words=aim)
    missing = [place for place in critical if not recall.is_covered(source.rows, place, taken)]
    room = MOST - int(source.lengths[taken].sum())
    added: list[int] = []
    for place in missing:
        if source.lengths[place] <= room:
            added.append(place)
            room -= int(source.lengths[place])
    return sorted({*taken, *added}), len(added)


def _told(chapter: Chapter, source: _Source, chosen: Sequence[int]) -> Summary:
    text = _paragraphs([source.sentences[place] for place in chosen])
    points = _key_points(source)
    quotes = _quotes(source, points)
    examples = _examples(source)
    summary_words = len(text.split())
    return Summary(
        number=chapter.number,
        title=chapter.title,
        words=source.words,
        summary_words=summary_words,
        pages=chapter.pages,
        text=text,
        key_points=tuple(source.sentences[place] for place in points),
        quotes=tuple(source.sentences[place] for place in quotes),
        examples=tuple(source.sentences[place] for place in examples),
        notes=tuple(_notes(source, len(points), len(quotes), len(examples))),
    )


def _paragraphs(told: Sequence[str]) -> str:
    paragraphs: list[list[str]] = [[]]
    for sentence in told:
        if sum(len(each.split()) for each in paragraphs[-1]) >= _PARAGRAPH_WORDS:
            paragraphs.append([])
        paragraphs[-1].append(sentence)
    return "\n\n".join(" ".join(each) for each in paragraphs)


def _key_points(source: _Source) -> list[int]:
    """The heaviest sentence of each part of the chapter, so that the end is represented too; none twice."""
    least, most = KEY_POINTS
    count = min(most, max(least, len(source.sentences) // 6), len(source.sentences))
    short = np.where(source.lengths <= _QUOTE_WORDS[1], source.weights, source.weights * 0.5)
    edges = np.linspace(0, len(short), count + 1).astype(int)
    best = [int(start + short[start:end].argmax()) for start, end in itertools.pairwise(edges)]
    others = [int(place) for place in np.argsort(-short, kind="stable")]
    # A part that is a table has no sentence to offer; the heaviest of the others take its place.
    whole = [place for place in best if rank.is_sentence(source.sentences[place])]
    found: dict[str, int] = {}
    for place in (*whole, *others):
        if len(found) < count:
            found.setdefault(source.sentences[place], place)
    return sorted(found.values())


def _quotes(source: _Source, points: Sequence[int]) -> list[int]:
    """Sentences to remember: direct speech first, neither short nor long, and no key points if there are others."""
    least, most = QUOTES
    weights = source.weights.copy()
    for place, sentence in enumerate(source.sentences):
        weights[place] += 0.3 * bool(_SPOKEN.search(sentence))
        weights[place] -= 0.5 * (place in points)
        weights[place] -= 1.0 * (not _QUOTE_WORDS[0] <= source.lengths[place] <= _QUOTE_WORDS[1])
    count = min(most, max(least, len(source.sentences) // 10))
    return sorted(rank.diverse(source.rows, weights, source.lengths, count=count))


def _examples(source: _Source) -> list[int]:
    """Sentences that are marked as examples; when those are few, some with quantities; empty when there are none."""
    said = [place for place, sentence in enumerate(source.sentences) if _EXAMPLE.search(sentence)][: EXAMPLES[1]]
    counted = [place for place, sentence in enumerate(source.sentences) if _QUANTITY.search(sentence)]
    counted.sort(key=lambda place: -source.weights[place])
    return sorted([*said, *[place for place in counted if place not in said][: max(0, _FEW_EXAMPLES - len(said))]])


def _notes(source: _Source, points: int, quotes: int, examples: int) -> list[str]:
    portuguese = source.language == "pt"
    notes = []
    if source.is_short:
        notes.append(
            f"O capítulo tem {source.words} palavras, menos de {LEAST}: está aqui inteiro."
            if portuguese
            else f"The chapter has {source.words} words, fewer than {LEAST}: it is given whole."
        )
    if points < KEY_POINTS[0] or quotes < QUOTES[0]:
        notes.append(
            f"Há só {len(source.sentences)} frases: {points} pontos-chave e {quotes} citações."
            if portuguese
            else f"There are only {len(source.sentences)} sentences: {points} key points and {quotes} quotes."
        )
    if not examples:
        notes.append("O capítulo não dá exemplos." if portuguese else "The chapter gives no examples.")
    return notes


def _audit(chapter: Chapter, summary: Summary, covered: Recall, addenda: int, *, short: bool) -> Audit:
    """Count again what was promised, independently."""
    source = " ".join(chapter.text.split())
    problems = [f"critical point {id} is not covered" for id in covered.missing]
    if not short and not LEAST <= summary.summary_words <= MOST:
        problems.append(f"the summary has {summary.summary_words} words, not {LEAST} to {MOST}")
    if not short and not KEY_POINTS[0] <= len(summary.key_points) <= KEY_POINTS[1]:
        problems.append(f"there are {len(summary.key_points)} key points, not {KEY_POINTS[0]} to {KEY_POINTS[1]}")
    if not short and not QUOTES[0] <= len(summary.quotes) <= QUOTES[1]:
        problems.append(f"there are {len(summary.quotes)} quotes, not {QUOTES[0]} to {QUOTES[1]}")
    problems += [
        f"a quote does not stand in the chapter: {quote[:60]}" for quote in summary.quotes if quote not in source
    ]
    return Audit(passed=not problems, addenda=addenda, problems=tuple(problems))
