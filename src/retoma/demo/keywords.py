"""What a text is about: language, length, and the words that hold it together."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict

from retoma.isolate import isolated

_WORD = re.compile(r"[^\W\d_]{2,}")
_WINDOW = 4
_ROUNDS = 20
_DAMPING = 0.85
_FEWEST_LETTERS = 4

# Words that say which language it is, and nothing else.
_SMALL = {
    "pt": "a o as os e de do da dos das em no na nos nas um uma por para com sem que se foi foram já mas não ao "
    "houve sobre conforme antes está entre falta há como mais ficou",
    "en": "a the and of in on at to for by with without that this is was were as it an be not no but has have "
    "before within about there still from between lack please",
}
SMALL_WORDS = {language: frozenset(words.split()) for language, words in _SMALL.items()}


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def language_of(text: str) -> str:
    """The language whose small words stand in *text* most often."""
    seen = Counter(words_of(text))
    return max(SMALL_WORDS, key=lambda language: sum(seen[word] for word in SMALL_WORDS[language]))


def count_words(text: str) -> dict[str, int]:
    """How long *text* is, and how many different words it has."""
    words = words_of(text)
    return {"words": len(words), "different": len(set(words))}


@isolated(seconds=30, megabytes=512)
def keywords_of(text: str, language: str) -> list[str]:
    """The five words that stand near the most others (as a page is ranked by the pages that link to it).

    In a process of its own, as one would do with a parser that may crash.
    """
    words = [word for word in words_of(text) if word not in SMALL_WORDS[language] and len(word) >= _FEWEST_LETTERS]
    near: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for place, word in enumerate(words):
        for other in words[place + 1 : place + _WINDOW]:
            if other != word:
                near[word][other] += 1
                near[other][word] += 1
    ties = {word: sum(others.values()) for word, others in near.items()}
    score = dict.fromkeys(near, 1.0)
    for _ in range(_ROUNDS):
        score = {
            word: 1 - _DAMPING + _DAMPING * math.fsum(score[other] * n / ties[other] for other, n in others.items())
            for word, others in near.items()
        }
    return sorted(score, key=lambda word: (-score[word], word))[:5]
