"""A chapter summed up in its own sentences, without a key and without a network.

Critical items come first, as they stand in the chapter, then one sentence for each part of it, then what goes on with
them or says something new, up to 400 words. So it is made of passages that can be read on: a sentence that leans on the
one before it (*but*, *he*, *Dividiu-os*) comes only behind that one; fragments, page furniture and dialogue do not come
at all while there is something else. The same chapter always gives the same summary.

The contract asks for 2 to 5 examples and allows no empty field. A chapter that gives none has no examples here and a
sentence in ``shortfalls["exemplos"]``; a checkpoint writes that sentence as its only example, so that the field is not
empty and says the truth. Other fields that the source is too short for are treated in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retoma.pipelines.books.contract import NO_EXAMPLES
from retoma.pipelines.books.ports import Chapter, Digest, Quotation, RecallItem, Summary
from retoma.pipelines.books.text import audit, coverage, markers, rank, recall
from retoma.pipelines.books.text.chunks import Chunk, cut
from retoma.pipelines.books.text.discourse import Standing
from retoma.pipelines.books.text.language import language_of
from retoma.pipelines.books.text.passages import paragraphs, parted, passages, standing_places
from retoma.pipelines.books.text.sentences import Sentence, page_at, sentences_of
from retoma.providers.local.encoder import Encoder, Matrix, best_encoder

AIM = 400
_LONGEST_QUOTATION, _SHORTEST_QUOTATION = 45, 8
_FEW_EXAMPLES = 3
_MEAGRE = 9
"""Words: a key point with fewer says little."""
_AT_ONCE = 64
_EXAMPLE = re.compile(
    r"\b(?:por exemplo|p\. ?ex\.|a exemplo d[aeo]s?|exemplo disso|como no caso|é o caso d[aeo]s?|foi o caso d[aeo]s?|"
    r"tais como|tal como|a saber|haja vista|veja-se|imagine|suponha|digamos que|"
    r"for example|for instance|e\.g\.|such as|suppose|consider the case|in the case of|namely|picture a)\b",
    re.IGNORECASE,
)
_COUNTED = re.compile(  # a sum, a share, a number of things but years and days; a list of cases
    r"(?:R\$|US\$|[$€£])\s?\d|\b\d++\s?(?:%|[a-zà-ÿ]{3})|"
    r"\b(?:dez|onze|doze|treze|c?quatorze|quinze|dezesseis|dezessete|dezoito|dezenove|vinte|trinta|quarenta|"
    r"cin[qc][uü]enta|sessenta|setenta|oitenta|noventa|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|twenty|thirty|forty|"
    r"fifty|sixty|seventy|eighty|ninety) (?!anos|dias|mes|horas|minutos|semanas|years|days|months|hours|minutes|weeks)"
    r"[a-zà-ÿ]{4}|, etc\.",
    re.IGNORECASE,
)
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
    marked = paragraphs(chosen, [f"{text} {markers.mark(by_text[text])}" if text in by_text else text for text in said])
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
    for place, sentence in enumerate(source.sentences):
        if sentence.text in critical:
            first.setdefault(sentence.text, place)
    aim = AIM if source.words >= 2 * AIM else max(least + 30, source.words // 2)
    taken = set(passages(source.sentences, source.rows, source.weights, first.values(), aim=aim, most=most))
    total = sum(source.sentences[place].words for place in taken)
    # A source that has next to no sentence that stands alone: dialogue, verse, tables.
    for place in sorted(range(len(source.sentences)), key=lambda place: (source.sentences[place].standing, place)):
        sentence = source.sentences[place]
        if total < least and place not in taken and total + sentence.words <= most:
            taken.add(place)
            total += sentence.words
    return sorted(taken)


def key_points(source: Source) -> list[str]:
    """The weightiest sentence of each part of the chapter, for its end has a say too; none twice."""
    least, most = audit.KEY_POINTS
    places = standing_places(source.sentences, least)
    count = min(most, max(least, len(places) // 6), len(places))
    critical = {item.text for item in source.items if item.critical}

    def worth(place: int) -> float:
        sentence = source.sentences[place]
        return float(source.weights[place]) + 0.3 * (sentence.text in critical) - 0.15 * (sentence.words < _MEAGRE)

    best = [max(part, key=worth) for part in parted(places, count)]
    others = sorted(places, key=lambda place: -worth(place))
    found: dict[str, int] = {}
    for place in (*best, *others):
        if len(found) < count:
            found.setdefault(source.sentences[place].text, place)
    return sorted(found, key=lambda text: found[text])


def quotations(source: Source, points: Sequence[str] = ()) -> list[Quotation]:
    """Sentences to remember, as they stand there, with their pages: spoken ones first, key points last."""
    least, most = audit.QUOTATIONS
    places = [
        place for place, each in enumerate(source.sentences) if each.standing in {Standing.ALONE, Standing.SPOKEN}
    ]
    if len(places) < least:
        places = standing_places(source.sentences, least)
    if not places:
        return []
    weights = source.weights[places].copy()
    for at, place in enumerate(places):
        sentence = source.sentences[place]
        spoken = sentence.standing is Standing.SPOKEN or _SPOKEN.search(sentence.text) is not None
        weights[at] += 0.3 * spoken - 0.5 * (sentence.text in points)
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
    """Sentences that call themselves examples; when those are few, some that count or list instances; none when there
    are none.
    """
    most = audit.EXAMPLES[1]
    # What calls itself an example is one, also behind the sentence that it is an example of.
    whole = [place for place, each in enumerate(source.sentences) if each.standing <= Standing.LEANS]
    said = [place for place in whole if _EXAMPLE.search(source.sentences[place].text)][:most]
    concrete = [
        place for place in source.readable if place not in said and _COUNTED.search(source.sentences[place].text)
    ]
    concrete.sort(key=lambda place: (-source.weights[place], place))
    found = sorted({*said, *concrete[: max(0, _FEW_EXAMPLES - len(said))]})
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
    return NO_EXAMPLES["pt" if portuguese else "en"]
