"""Whether a sentence can be read without the ones around it, and which sentences of a text are spoken by somebody."""

from __future__ import annotations

import re
import statistics
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from enum import IntEnum
from itertools import pairwise


class Standing(IntEnum):
    """How a sentence stands without the ones around it."""

    ALONE = 0
    """Whole, and it says itself of whom and what it speaks."""
    LEANS = 1
    """Whole, but understood only behind the sentence before it."""
    SPOKEN = 2
    """Whole, but somebody says it; without the line before, nobody knows who."""
    APART = 3
    """A fragment, page furniture, a row of a table."""


_ENDS = re.compile(r"[.!?…][\"”»')\]]*$")
_FURNITURE = re.compile(
    r"^\W*\[?\d+\]?\W|\.{4}|\bhttps?:|\bwww\.|project gutenberg|\bisbn\b|©|\||\[\d+\]$|^(?:fig|tab)\w*\.? \d",
    re.IGNORECASE,
)
_SHORT, _LONG = 6, 45
_LETTERS = 0.7

_JOINS = re.compile(  # a first word that goes on with what was said
    r"(?:(?:e|mas|porém|contudo|todavia|entretanto|assim|então|portanto|logo|também|além disso|por isso|daí|dali|daqui|"
    r"nisso|nisto|disso|disto|pois|porque|porquanto|ou|que|nem|ora|aliás|enfim|afinal|só|sim|ali|lá|aí|em seguida|"
    r"em todo caso|por outro lado|ao mesmo tempo|quanto a[os]?|quanto à|dito (?:isso|isto)|disse (?:isso|isto)|"
    r"feito (?:isso|isto)|o mesmo|a mesma|tal|tais|semelhante|"
    r"(?:[oa]s? )?(?:outr[oa]s?|primeir[oa]s?|segund[oa]s?|últim[oa]s?|demais)|"
    r"and|but|or|so|then|thus|therefore|however|nevertheless|moreover|also|such|hence|yet|which|who|whom|there|"
    r"because|nor|neither|instead|meanwhile|otherwise|still|here|only|yes|"
    r"(?:the )?(?:others?|former|latter|first|second|third|last)|another|after that|by then|in that case)\b|"
    r"depois(?:,| (?!d[eao]s?\b))|for (?!example\b|instance\b)|(?:uma?|uns|umas|não|antes|no|one),)",
    re.IGNORECASE,
)
_POINTS = re.compile(  # within its first words it points at what only the sentence before can have named
    r"(?:É o que|Foi o que|Foi então|Foi assim|(?:\S{1,40} ){0,4}(?:del[ea]s?|nel[ea]s?|es[st][ea]s?|des[st][ea]s?|"
    r"nes[st][ea]s?|aquel[ea]s?|daquel[ea]s?|aquilo|daquilo|naquilo|this|these|those)|"
    r"(?:\S{1,40} ){0,9}(?:is[st]o|dis[st]o|nis[st]o|semelhantes?)|that)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(  # within its first words stands for somebody, unless those words say for whom
    r"((?:\S{1,40} ){0,4}?)(?:el[ea]s?|lhes?|seus?|suas?|he|she|it|they|him|them|his|hers?|its|theirs?)\b",
    re.IGNORECASE,
)
_NOUN_FIRST = re.compile(
    r"(?:os?|as?|uma?|cada|tod[oa]s?|nenhuma?|muit[oa]s?|algu(?:m|ma|ns|mas)|ninguém|quem|the|an?|each|every|some|many|"
    r"most|no|nobody|whoever|people) \S",
    re.IGNORECASE,
)
_SAYS = re.compile(  # what somebody says, in the same breath with who says it
    r", (?:disse|dizia|respondeu|replicou|perguntou|bradou|exclamou|tornou|acudiu|said|replied|asked|cried|answered)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[a-zà-ÿ,;] )[A-ZÀ-Ý][a-zà-ÿ]{2,40}")
_ITSELF = re.compile(  # "it" and "that" that point at nothing
    r"(?:it is (?:called|necessary|possible|impossible|true|clear|said|important|not)|"
    r"in (?:this|that) (?:year|chapter|book|country|century|time)|at (?:this|that) time|"
    r"naquel[ea] (?:ano|dia|tempo|época)|nes[st][ea] (?:capítulo|livro|ano)|"
    r"es[st][ea] (?:capítulo|livro|obra)|this (?:chapter|book))\b",
    re.IGNORECASE,
)
_NO_SUBJECT = re.compile(  # Portuguese leaves out who: a verb comes first, and no noun behind it
    r"(?:não|nunca|já|ainda|mal) (?:[oa]s? )?\w{1,30}(?:ia|iam|ava|avam|ira|ara|era|vi|vira|vê)\b(?! (?:[oa]s?|uma?) )|"
    r"(?:(?:não|nunca|já|ainda|sempre|quase|tão|bem) )?(?:"
    r"(?:era|eram|foi|foram|fora|é|são|está|estão|estava|estavam|seria|será)\b(?! uma vez\b| precis| necess| "
    r"verdade\b| clar| cert| possív| impossív| proibid| vedad| obrigat| sabid| dever\b)|"
    r"(?:tinha|tinham|dizia|sabia|queria|podia|devia|fazia|via|vivia|parecia|sentia|vinha|ia|iam|fez|disse|quis|"
    r"pôde|veio|teve|ousava)\b(?! (?:[oa]s?|uma?|que)\b)|"
    r"\w{2,30}-(?:l?[oa]s?|lhes?|n[oa]s?)\b|\w{2,30}-se\b(?! (?:[oa]s?|uma?|que|de|por|em)\b)|"
    r"\w{2,30}(?:ou|iu|eu|aram|eram|iram|ava|avam)\b(?!-| (?:[oa]s?|uma?|que)\b))",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"[^\s,]{1,40}(?: [^\s,]{1,40}){0,2}, (?:porém|entretanto|contudo|todavia|pois|portanto|também|então|aliás|enfim|"
    r"however|therefore|too|then|moreover),",
    re.IGNORECASE,
)


def names(text: str) -> frozenset[str]:
    """Words that *text* writes with a capital where no sentence begins."""
    return frozenset(_NAME.findall(text))


def standing(sentence: str, language: str = "pt", known: Collection[str] = ()) -> Standing:
    """How *sentence*, on one line, stands alone; *known* are the names of its text."""
    first = next((each for each in sentence if each.isalnum()), "")
    words = sentence.split()
    letters = sum(map(str.isalpha, sentence)) / max(1, len("".join(words)))
    whole = (
        _SHORT <= len(words) <= _LONG
        and letters > _LETTERS
        and (first.isupper() or first.isdigit())
        and not sentence.isupper()
        and _ENDS.search(sentence) is not None
        and _FURNITURE.search(sentence) is None
    )
    if not whole:
        return Standing.APART
    if _SAYS.search(sentence):
        return Standing.SPOKEN
    return Standing.LEANS if _leans(sentence.lstrip("\"“«'("), language, known) else Standing.ALONE


def _leans(sentence: str, language: str, known: Collection[str]) -> bool:
    """Whether *sentence* begins with a word that goes on, with one that points back, or without its subject."""
    if _ITSELF.match(sentence):
        return False
    named = sentence.split(" ", 1)[0].strip(",.;") in known
    return (
        _JOINS.match(sentence) is not None
        or _POINTS.match(sentence) is not None
        or _GOES_ON.match(sentence) is not None
        or (not named and _stands_for_somebody(sentence))
        or (not named and language == "pt" and _NO_SUBJECT.match(sentence) is not None)
    )


def _stands_for_somebody(sentence: str) -> bool:
    found = _PRONOUN.match(sentence)
    return found is not None and _NOUN_FIRST.match(sentence) is None and _NAME.search(found[1]) is None


# — who speaks —

_DASHES = ("-", "–", "—")
_QUOTES = re.compile('[“”«»"]')
_LINE = re.compile(r"[^\n]*\n?")
_WRAPPED = 120
"""Characters: where no line is much longer, lines are cut by the printer and do not end paragraphs."""
_FULL = 0.8
"""Of a line's usual length: a sentence that ends before this ends its paragraph."""


def paragraphs(text: str) -> list[int]:
    """Where the paragraphs of *text* begin."""
    lines = [(found.start(), found[0].strip()) for found in _LINE.finditer(text) if found[0]]
    lengths = [len(line) for _, line in lines if line]
    usual = statistics.median(lengths) if lengths else 0
    wrapped = bool(lengths) and sorted(lengths)[len(lengths) * 9 // 10] <= _WRAPPED
    starts = [0]
    for (_, before), (start, line) in pairwise(lines):
        short = _ENDS.search(before) is not None and len(before) < _FULL * usual
        if line and (not before or not wrapped or short or line.startswith(_DASHES)):
            starts.append(start)
    return starts


def spoken(text: str, starts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The spans of *text* that somebody says: paragraphs that begin with a dash, and what stands between quotes."""
    for start, end in pairwise([*starts, len(text)]):
        paragraph = text[start:end]
        if paragraph.lstrip().startswith(_DASHES):
            yield start, end
            continue
        opened = -1
        for quote in _QUOTES.finditer(paragraph):
            opens = quote[0] in "“«" or (quote[0] == '"' and opened < 0)
            if opens and opened < 0:
                opened = start + quote.start()
            elif not opens and opened >= 0:
                yield opened, start + quote.end()
                opened = -1
        if opened >= 0:
            yield opened, end


def within(spans: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Whether a sentence from *start* to *end* begins or ends inside one of *spans*, which are in order."""
    place = max(0, bisect_left(spans, (start, 0)) - 1)
    near = spans[place : bisect_left(spans, (end, 0))]
    return any(
        (begins <= start and end <= ends) or begins < start < ends or begins < end < ends for begins, ends in near
    )
