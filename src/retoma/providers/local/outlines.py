"""Decides which headings of a document are its chapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from retoma.providers.local import limits
from retoma.providers.local.headings import is_chapter_title

_FEW = 2


class Heading(NamedTuple):
    """A title, its depth (the top is 0), and its page."""

    depth: int
    title: str
    page: int


def chapters(headings: Sequence[Heading]) -> tuple[tuple[str, int], ...]:
    """Titles and pages of the one depth that divides the document into chapters.

    This is the depth with most titles that name themselves ("Capítulo 3"); when none does, the shallowest one with at
    least two titles: above it is the title of the whole.
    """
    depths = sorted({each.depth for each in headings})
    said = {depth: sum(is_chapter_title(each.title) for each in headings if each.depth == depth) for depth in depths}
    best = max(depths, key=lambda depth: (said[depth], -depth), default=0)
    if not said.get(best):
        best = next((depth for depth in depths if sum(each.depth == depth for each in headings) >= _FEW), best)
    found = [(" ".join(each.title.split()), each.page) for each in headings if each.depth == best]
    return tuple((title, page) for title, page in found if title)[: limits.OUTLINE]
