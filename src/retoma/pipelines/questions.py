"""Questions: their words, what each of them is worth, and one ranking of words and meaning."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from retoma.providers import Embedder
from retoma.store.query import Query, load

K = TypeVar("K", bound=Hashable)

SQL = load("retoma.pipelines.queries", "questions.sql")

WORDS_SHARE = 0.8
"""What the words of a question count beside its meaning, when a text has them all: they are the surer sign then."""

_TRUST = 1.5
"""How fast that falls with the share of the words that are found. Like the other figures here, it was chosen on the dev
part of questions whose answers are known.
"""

_WORDS_EVIDENCE = 0.15
"""What the words count when it is asked whether a text has to do with the question at all."""


_MOST_WORDS = 60
_SIGNS = ".,;:!?()[]\"'“”‘’«»…"
_SHORTEST = 3
_NUMBERS = (
    ("ão", "ões"), ("ões", "ão"), ("ao", "oes"), ("oes", "ao"), ("al", "ais"), ("ais", "al"), ("el", "éis"),
    ("éis", "el"), ("eis", "el"), ("eis", "il"), ("il", "is"), ("is", "il"), ("ol", "óis"), ("óis", "ol"),
    ("ois", "ol"), ("m", "ns"), ("ns", "m"), ("ei", "eis"), ("eis", "ei"),
)  # fmt: skip
"""Ends of singular and plural that Portuguese words have and its stemmer does not know."""

_ACCENTS = (
    ("cao", "ção"), ("coes", "ções"), ("sao", "são"), ("soes", "sões"), ("encia", "ência"), ("encias", "ências"),
    ("ancia", "ância"), ("ancias", "âncias"), ("ario", "ário"), ("arios", "ários"), ("aria", "ária"),
    ("arias", "árias"),
    ("orio", "ório"), ("orios", "órios"), ("oria", "ória"), ("orias", "órias"), ("avel", "ável"), ("aveis", "áveis"),
    ("ivel", "ível"), ("iveis", "íveis"), ("icio", "ício"), ("icios", "ícios"), ("icia", "ícia"), ("icias", "ícias"),
    ("opio", "ópio"), ("ipio", "ípio"), ("ipios", "ípios"), ("onio", "ônio"), ("onica", "ônica"), ("onico", "ônico"),
    ("ugio", "úgio"), ("ublica", "ública"), ("ublico", "úblico"), ("edito", "édito"),
)  # fmt: skip
"""Ends of words that have an accent, as they are typed without it."""


class Weighed(NamedTuple):
    """A word of a question, in how many texts it stands (up to a bound), and its weight: a rare one says more."""

    sought: str
    texts: int
    weight: float


class Fit(NamedTuple):
    """How well the words of a text fit a question: the share of their weight that it has, and a rank by how often."""

    share: float
    rank: float


def sought(text: str) -> Query[str]:
    words = text.replace("\0", " ").split()[:_MOST_WORDS]
    return Query(SQL["sought"], str, {"words": [" ".join(_forms(word)) for word in words]})


def _forms(word: str) -> list[str]:
    """*word*, its plural or singular where PostgreSQL's stems of the two differ (*decisão* and *decisões*), and each of
    them with the accent that its end should have.
    """
    bare = word.strip(_SIGNS).lower()
    if len(bare) < _SHORTEST or not bare.isalpha():
        return [word]
    forms = [word, *_with_other_ends(bare, _NUMBERS)]
    accented = [form for each in (bare, *forms[1:]) for form in _with_other_ends(each, _ACCENTS)]
    return list(dict.fromkeys([*forms, *accented]))


def _with_other_ends(word: str, ends: Iterable[tuple[str, str]]) -> list[str]:
    return [word.removesuffix(end) + other for end, other in ends if word.endswith(end)]


def blended(words: Mapping[K, Fit], meaning: Mapping[K, float]) -> list[tuple[K, float]]:
    """One ranking out of two, best first, by a score of 0 to 1: how well the words fit, as a share of the best, and how
    near the meaning is, between the farthest and the nearest that was found.

    The words count for less where no text has many of them: then what says the same in other words comes first.
    """
    best = max((fit.rank for fit in words.values()), default=0.0)
    trust = WORDS_SHARE * max((fit.share for fit in words.values()), default=0.0) ** _TRUST
    nearest, farthest = max(meaning.values(), default=0.0), min(meaning.values(), default=0.0)
    reach = nearest - farthest
    scores = dict.fromkeys([*words, *meaning], 0.0)
    for key, fit in words.items():
        scores[key] += trust * (fit.rank / best if best > 0 else 1.0)
    for key, cosine in meaning.items():
        scores[key] += (1 - WORDS_SHARE) * ((cosine - farthest) / reach if reach > 0 else 1.0)
    return sorted(scores.items(), key=lambda pair: -pair[1])


def is_answered(words: Mapping[K, Fit], meaning: Mapping[K, float], embedder: Embedder) -> bool:
    """Whether any text has to do with the question. Where *embedder* cannot say what is unrelated, each text has."""
    unrelated: float | None = getattr(embedder, "unrelated", None)
    if not meaning or unrelated is None:
        return bool(words or meaning)
    return max(evidence(words, meaning).values()) >= unrelated


def evidence(words: Mapping[K, Fit], meaning: Mapping[K, float]) -> dict[K, float]:
    """For each text how much it has to do with the question."""
    shares = {key: fit.share for key, fit in words.items()}
    return {
        key: _WORDS_EVIDENCE * shares.get(key, 0.0) + (1 - _WORDS_EVIDENCE) * meaning.get(key, 0.0)
        for key in {*words, *meaning}
    }


def columns(words: Sequence[Weighed]) -> dict[str, list[str] | list[int] | list[float]]:
    """*words* as the parameters of a statement."""
    return {
        "sought": [each.sought for each in words],
        "texts": [each.texts for each in words],
        "weights": [each.weight for each in words],
    }
