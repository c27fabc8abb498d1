"""Words that tell some documents from the others."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

_WORD = re.compile(r"[^\W\d_]{4,30}")
WORDS = 6


class Wording:
    """In how many documents of each group, and of all the others, a word stands."""

    def __init__(self, groups: int) -> None:
        self._own = [Counter[str]() for _ in range(groups)]
        self._sizes = [0] * groups
        self._all = Counter[str]()
        self._size = 0

    def read(self, text: str, group: int | None) -> None:
        """Count the words of a document, which belongs to a *group* or to none."""
        found = {word.lower() for word in _WORD.findall(text)}
        self._all.update(found)
        self._size += 1
        if group is not None:
            self._own[group].update(found)
            self._sizes[group] += 1

    def words(self, group: int, most: int = WORDS) -> list[str]:
        """The words that are frequent in a *group* and rare outside, the most telling first."""
        own, size = self._own[group], self._sizes[group]
        weighed = [
            (self._weight(times, size, self._all[word]), word) for word, times in own.items() if 2 * times > size
        ]
        weighed = weighed or [(self._weight(times, size, self._all[word]), word) for word, times in own.items()]
        return [word for weight, word in sorted(weighed, key=lambda each: (-each[0], each[1]))[:most] if weight > 0]

    def _weight(self, times: int, size: int, everywhere: int) -> float:
        inside = (times + 0.5) / (size + 1)
        outside = (everywhere - times + 0.5) / (self._size - size + 1)
        return inside * math.log(inside / outside)


def described(texts: Iterable[tuple[str, int | None]], groups: int) -> list[list[str]]:
    """The telling words of each group, from all texts of a batch, each with its group or None."""
    wording = Wording(groups)
    for text, group in texts:
        wording.read(text, group)
    return [wording.words(group) for group in range(groups)]
