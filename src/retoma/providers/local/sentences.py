"""Splits a text into verbatim sentences, and detects its language."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterator

from simplemma import split_sentences

# Where simplemma ends a sentence and a legal text does not.
_GOES_ON = re.compile(
    r"(?:^|[\s(\"“«])(?:arts?|inc|incs|al|fls?|n|nº|nos|p|pp|pág|págs|vol|ed|cf|ex|exa|exmo|exma|ilmo|ilma|dr|dra|drs|sr|"
    r"sra|srs|prof|profa|des|min|proc|reg|rel|min|v|vs|cap|ltda|s\.a|cia|av|r|tel|cep|obs|lit|par|sec|no|nos|mr|mrs|ms|"
    r"st|fig|tab|e\.g|i\.e|etc|approx|dept|gen|gov|inc|jr|ltd|co|corp)\.$",
    re.IGNORECASE,
)
_STARTS_LOW = re.compile(r"[\d§\[(a-zà-ÿ]")
_ALWAYS_ENDS = re.compile(r"(?:etc|ltda|s\.a|cia|ltd|co|corp|jr)\.$", re.IGNORECASE)
# A line of its own: a bullet, a lettered or numbered point, a clause.
_POINT = re.compile(
    r"\n(?=[ \t]*(?:[-•*–—▪◦|#>]+\s|\(?[a-z0-9]{1,3}[).]\s|cl[aá]usula\s|art(?:igo|icle)?\.?\s|§\s*\d))", re.IGNORECASE
)
_WORD = re.compile(r"\S{1,1000}")  # a longer word would be scanned again for each part of it
_SIGN = re.compile(r"^\s*(?:[-•*–—▪◦#>]+\s+)+")
_SHOUTED = re.compile(r"(?m)^(?=[^\n]*[A-ZÀ-Ý]{3})[^a-zà-ÿ\n]{3,80}$\n?")
# A short line without the end of a sentence, between complete ones: a heading.
_HEADED = re.compile(r"(?:(?<=[.!?:;”\"]\n)|(?<=\A)|(?<=\n\n))[^\n]{3,60}(?<![.!?:;,\-–—”\"])\n(?=[A-ZÀ-Ý\"“«])")
_ABBREVIATION = 20
"""Characters; more than our longest abbreviation with what precedes it."""

_LONG = 80
"""Words after which a sentence is cut at a semicolon, a colon or a comma: some texts have no full stops."""

_LONG_CHARACTERS = 1_000

_ONE_ASKS = threading.Lock()  # otherwise concurrent first callers would load a model each


def sentences(text: str, language: str | None = None) -> list[str]:
    """The sentences of *text*, each a verbatim piece of it, in order."""
    language = language or language_of(text)
    found = [
        short
        for block in _blocks(text)
        for sentence in _whole(block, split_sentences(block, language))
        for short in _cut(_SIGN.sub("", sentence))
    ]
    return [sentence for sentence in found if any(map(str.isalnum, sentence))]


def _blocks(text: str) -> Iterator[str]:
    """*text* divided where a new point or a title in capitals begins; line ends alone do not divide."""
    for page in text.split("\f"):
        edges = {0, len(page), *(found.end() for found in _POINT.finditer(page))}
        edges |= {edge for pattern in (_SHOUTED, _HEADED) for found in pattern.finditer(page) for edge in found.span()}
        for start, end in itertools.pairwise(sorted(edges)):
            yield page[start:end]


def _whole(block: str, pieces: list[str]) -> Iterator[str]:
    """*pieces* of *block*, with those joined again that were divided after an abbreviation."""
    start = end = place = 0
    for number, piece in enumerate(pieces):
        begins = block.index(piece, place)
        # Only its end is checked: the whole, for each joined piece, would take quadratic time.
        if number and not _parted_wrongly(block[max(start, end - _ABBREVIATION) : end], piece):
            yield block[start:end]
            start = begins
        elif not number:
            start = begins
        place = end = begins + len(piece)
    if end:
        yield block[start:end]


def _parted_wrongly(before: str, after: str) -> bool:
    if not _GOES_ON.search(before):
        return False
    return not _ALWAYS_ENDS.search(before) or _STARTS_LOW.match(after) is not None


def _cut(sentence: str) -> Iterator[str]:
    """*sentence*, or its parts when it is too long to be one."""
    start, end = 0, len(sentence)
    while True:
        words = list(itertools.islice(_WORD.finditer(sentence, start, end), _LONG + 1))
        if not words:
            return
        start = words[0].start()
        if len(words) <= _LONG and words[-1].end() - start <= _LONG_CHARACTERS:
            yield sentence[start : words[-1].end()]
            return
        ends = [word.end() for word in words[_LONG // 2 : _LONG] if word[0][-1] in ";:,"]
        edge = ends[-1] if ends else words[-1].start() if len(words) > _LONG else end
        edge = min(edge, start + _LONG_CHARACTERS)  # a word without end is no word, but it occurs
        yield sentence[start:edge].strip()
        start = edge


def language_of(text: str) -> str:
    """The more likely language of *text*: "pt" or "en"."""
    import py3langid  # type: ignore[import-untyped]  # noqa: PLC0415  # half a second

    with _ONE_ASKS:
        ranked = py3langid.rank(text[:4000])
    return next(str(code) for code, _ in ranked if code in {"pt", "en"})
