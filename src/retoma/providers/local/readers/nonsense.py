"""Whether the text layer of a page says anything: fonts with a broken map show letters and give others."""

from __future__ import annotations

import re

_GLYPHS = re.compile("[\ufffd\ue000-\uf8ff\uffff\x00-\x08\x0e-\x1f]")
_WORD = re.compile(r"[^\W\d_]{4,20}")
_VOWELS = frozenset("aeiouyáàâãäéèêëíìîïóòôõöúùûüAEIOUYÁÀÂÃÄÉÈÊËÍÌÎÏÓÒÔÕÖÚÙÛÜ")
_SAMPLE = 4_000
"""Characters that are looked at."""

_ENOUGH = 30
"""Different words of Latin letters from which on their vowels tell: fewer may all be abbreviations."""

_VOICED = 0.5
_VOWELS_LEAST = 0.25
_LATIN = "\u024f"


def is_nonsense(text: str) -> bool:
    """Whether *text* is glyphs without a meaning, or words that no language has.

    In every language of Latin letters a third of the letters or more are vowels, and nearly every word of four letters
    has a vowel and a consonant. A font whose map is shifted gives words that have not.
    """
    sample = text[:_SAMPLE]
    signs = "".join(sample.split())
    if len(_GLYPHS.findall(signs)) * 2 > len(signs):
        return True
    words = {word for word in _WORD.findall(sample) if max(word) <= _LATIN}
    if len(words) < _ENOUGH:
        return False
    sound = sum(0 < sum(letter in _VOWELS for letter in word) < len(word) and _one_case(word) for word in words)
    letters = "".join(words)
    vowels = sum(letter in _VOWELS for letter in letters)
    return sound < len(words) * _VOICED or vowels < len(letters) * _VOWELS_LEAST


def _one_case(word: str) -> bool:
    """Whether *word* is written as words are: small, in capitals, or with a capital at its beginning."""
    return word.islower() or word.isupper() or word[1:].islower()
