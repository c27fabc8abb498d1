"""A chapter summed up in its own sentences, without a key and without a network.

Critical items come first, as they stand in the chapter; then the weightiest sentences that say something new, up to 400
words. Only sentences that can be read alone are taken: whole, no page furniture, no pronoun without its noun. The same
chapter always gives the same summary.

The contract asks for 2 to 5 examples and allows no empty field. A chapter that gives none has no examples here and a
sentence in ``shortfalls["exemplos"]``; a checkpoint writes that sentence as its only example, so that the field is not
empty and says the truth. Other fields that the source is too short for are treated in the same way.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retoma.pipelines.books.ports import Chapter, Digest, Quotation, RecallItem, Summary
from retoma.pipelines.books.text import audit, coverage, markers, rank, recall
from retoma.pipelines.books.text.chunks import Chunk, cut
from retoma.pipelines.books.text.language import language_of
from retoma.pipelines.books.text.sentences import Sentence, page_at, sentences_of
from retoma.providers.local.encoder import Encoder, Matrix, best_encoder

AIM = 400
_LONGEST_QUOTATION, _SHORTEST_QUOTATION = 45, 8
_PARAGRAPH_WORDS = 110
_FEW_EXAMPLES = 3
_AT_ONCE = 64
_EXAMPLE = re.compile(
    r"\b(por exemplo|p\. ?ex\.|a exemplo d|exemplo disso|como no caso|imagine|suponha|é o caso d|"
    r"for example|for instance|e\.g\.|such as|suppose|imagine|consider the case)\b",
    re.IGNORECASE,
)
_QUANTITY = re.compile(r"(?:R\$|US\$|[$€£])\s?\d|\b\d++\s?(?:%|[a-zà-ÿ]{3})", re.IGNORECASE)
_SPOKEN = re.compile(r"[“”«»\"]")


@dataclass(frozen=True, slots=True)
class Source:
    """A chapter with its sentences, their vectors and weights, its chunks, and what must not be missed."""

    chapter: Chapter
    language: str
    sentences: list[Sentence]
    chunks: list[Chunk]
    rows: Matrix
    weights: NDArray[np.float64]
    items: tuple[RecallItem, ...]

    @classmethod
    def of(cls, chapter: Chapter, encoder: Encoder | None = None) -> Source:
        """Read *chapter*; a chapter without a word has no sentence."""
        encoder = encoder or best_encoder()
        sentences, chunks = sentences_of(chapter.text), cut(chapter.text)
        language = language_of(chapter.text)
        if not sentences:
            return cls(chapter, language, [], chunks, np.zeros((0, 1), dtype=np.float32), np.zeros(0), ())
        texts = [each.text for each in sentences]
        rows = np.vstack([encoder.encode(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE)])
        weights = rank.weights(texts, rows, encoder.encode([chapter.title or texts[0]])[0])
        found = recall.items(chapter, sentences, chunks, rows, weights)
        return cls(chapter, language, sentences, chunks, rows, weights, found)

    @property
    def words(self) -> int:
        return sum(each.words for each in self.sentences)

    @property
    def readable(self) -> list[int]:
        """The places of sentences that can be read alone."""
        return [place for place, each in enumerate(self.sentences) if each.readable]


@dataclass(frozen=True, slots=True)
class Written:
    """A summary, its text with marks, and the recall set that it was written for."""

    summary: Summary
    marked: str
    items: tuple[RecallItem, ...]


def summarise(chapter: Chapter, *, encoder: Encoder | None = None) -> Written:
    """The summary of *chapter* in its own sentences."""
    return write(Source.of(chapter, encoder))


def digest(source: Source, written: Written, read: Mapping[int, str], **counted: int) -> Digest:
    """*written*, audited and measured; *read* are the chunks that were read, *counted* regenerations and addendums."""
    checked = audit.audit(source.chapter, written.summary, written.marked, written.items, **counted)
    said = audit.covered(written.items, written.marked)
    return Digest(
        summary=written.summary,
        coverage=coverage.measure(source.chapter, read, said, sentences=source.sentences),
        audit=checked,
    )


def write(source: Source) -> Written:
    """The summary of a chapter that was read."""
    chosen = _chosen(source)
    by_text = {item.text: item for item in source.items if item.critical}
    said = [source.sentences[place].text for place in chosen]
    marked = _paragraphs([f"{text} {markers.mark(by_text[text])}" if text in by_text else text for text in said])
    points = key_points(source)
    quoted, given = quotations(source, points), examples(source)
    text = markers.unmarked(marked)
    return Written(
        Summary(
            text=text,
            key_points=tuple(points),
            quotations=tuple(quoted),
            examples=tuple(given),
            shortfalls=shortfalls(source, len(text.split()), len(points), len(quoted), len(given)),
        ),
        marked,
        source.items,
    )


def _chosen(source: Source) -> list[int]:
    """The places of the sentences of the summary, in order: all of them when they are few."""
    least, most = audit.WORDS
    if source.words < least:
        return list(range(len(source.sentences)))
    critical = {item.text for item in source.items if item.critical}
    first: dict[str, int] = {}
    for place in source.readable:
        if source.sentences[place].text in critical:
            first.setdefault(source.sentences[place].text, place)
    taken = set(first.values())
    total = sum(source.sentences[place].words for place in taken)
    readable = [place for place in source.readable if source.sentences[place].text not in critical]
    lengths = np.array([source.sentences[place].words for place in readable], dtype=np.int64)
    ranked = rank.diverse(source.rows[readable], source.weights[readable], lengths) if readable else []
    said = {source.sentences[place].text for place in taken}
    # What cannot be read alone comes in only behind the sentence that it leans on.
    leaning = [
        place + 1
        for place in [readable[each] for each in ranked]
        if place + 1 < len(source.sentences) and not source.sentences[place + 1].readable
    ]
    aim = AIM if source.words >= 2 * AIM else max(least + 30, source.words // 2)
    for place in (*(readable[each] for each in ranked), *leaning):
        sentence = source.sentences[place]
        enough = total >= (aim if sentence.readable else least)
        if not enough and sentence.text not in said and total + sentence.words <= most:
            taken.add(place)
            said.add(sentence.text)
            total += sentence.words
    for place, sentence in enumerate(source.sentences):  # a source that has next to no whole sentence: verse, tables
        if total < least and place not in taken and total + sentence.words <= most:
            taken.add(place)
            total += sentence.words
    return sorted(taken)


def _paragraphs(told: Sequence[str]) -> str:
    paragraphs: list[list[str]] = [[]]
    for sentence in told:
        if sum(len(each.split()) for each in paragraphs[-1]) >= _PARAGRAPH_WORDS:
            paragraphs.append([])
        paragraphs[-1].append(sentence)
    return "\n\n".join(" ".join(each) for each in paragraphs)


def key_points(source: Source) -> list[str]:
    """The weightiest sentence of each part of the chapter, for its end has a say too; none twice."""
    least, most = audit.KEY_POINTS
    places = source.readable if len(source.readable) >= least else list(range(len(source.sentences)))
    count = min(most, max(least, len(places) // 6), len(places))
    edges = np.linspace(0, len(places), count + 1).astype(int)
    parts = [places[start:end] for start, end in itertools.pairwise(edges) if end > start]
    best = [max(part, key=lambda place: source.weights[place]) for part in parts]
    others = sorted(places, key=lambda place: -source.weights[place])
    found: dict[str, int] = {}
    for place in (*best, *others):
        if len(found) < count:
            found.setdefault(source.sentences[place].text, place)
    return sorted(found, key=lambda text: found[text])


def quotations(source: Source, points: Sequence[str] = ()) -> list[Quotation]:
    """Sentences to remember, as they stand there, with their pages: spoken ones first, key points last."""
    least, most = audit.QUOTATIONS
    places = source.readable if len(source.readable) >= least else list(range(len(source.sentences)))
    if not places:
        return []
    weights = source.weights[places].copy()
    for at, place in enumerate(places):
        sentence = source.sentences[place]
        weights[at] += 0.3 * bool(_SPOKEN.search(sentence.text)) - 0.5 * (sentence.text in points)
        weights[at] -= 1.0 * (not _SHORTEST_QUOTATION <= sentence.words <= _LONGEST_QUOTATION)
    lengths = np.array([source.sentences[place].words for place in places], dtype=np.int64)
    count = min(most, max(least, len(places) // 10))
    found: dict[str, int] = {}
    for at in rank.diverse(source.rows[places], weights, lengths):
        if len(found) < count:
            found.setdefault(source.sentences[places[at]].text, places[at])
    return [
        Quotation(text=text, page=page_at(source.chapter, source.sentences[place].start))
        for text, place in sorted(found.items(), key=lambda each: each[1])
    ]


def examples(source: Source) -> list[str]:
    """Sentences that call themselves examples; when those are few, some with quantities; none when there are none."""
    most = audit.EXAMPLES[1]
    places = source.readable
    said = [place for place in places if _EXAMPLE.search(source.sentences[place].text)][:most]
    counted = [place for place in places if place not in said and _QUANTITY.search(source.sentences[place].text)]
    counted.sort(key=lambda place: (-source.weights[place], place))
    found = sorted({*said, *counted[: max(0, _FEW_EXAMPLES - len(said))]})
    return list(dict.fromkeys(source.sentences[place].text for place in found))


def shortfalls(source: Source, words: int, points: int, quoted: int, given: int) -> dict[str, str]:
    """Why there is less than the contract asks, in the language of the chapter."""
    portuguese = source.language == "pt"
    found = {}
    if words < audit.WORDS[0]:
        found["resumo"] = (
            f"O capítulo tem {source.words} palavras: não dá um resumo de {audit.WORDS[0]}."
            if portuguese
            else f"The chapter has {source.words} words: too few for a summary of {audit.WORDS[0]}."
        )
    count = len(source.sentences)
    if points < audit.KEY_POINTS[0]:
        found["pontos_chave"] = (
            f"O capítulo tem só {count} frases." if portuguese else f"The chapter has only {count} sentences."
        )
    if quoted < audit.QUOTATIONS[0]:
        found["citacoes"] = (
            f"O capítulo tem só {count} frases." if portuguese else f"The chapter has only {count} sentences."
        )
    if given < audit.EXAMPLES[0]:
        found["exemplos"] = _few_examples(given, portuguese=portuguese)
    return found


def _few_examples(count: int, *, portuguese: bool) -> str:
    if count:
        return "O capítulo dá um só exemplo." if portuguese else "The chapter gives only one example."
    return "O capítulo não dá exemplos." if portuguese else "The chapter gives no examples."
