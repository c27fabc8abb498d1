"""Why a person should look at a list of chapters before anything is paid."""

from __future__ import annotations

from collections.abc import Sequence

from retoma.pipelines.books.ports import Chapter
from retoma.pipelines.books.remarks import Remark, remark
from retoma.pipelines.books.text import cuts as cutting
from retoma.pipelines.books.text.layout import FEW_CHAPTERS, MANY_WORDS, MOST_SHARE, Layout

_LEFT_SHARE = 0.4


def of(layout: Layout, chapters: Sequence[Chapter], words: int) -> tuple[Remark, ...]:
    """What speaks against *layout*; nothing when it can be trusted."""
    found = []
    if layout.share > MOST_SHARE and layout.largest:
        title = layout.largest.cut.title or layout.largest.cut.number
        found.append(remark("chapter_too_large", title=title, percent=round(layout.share * 100)))
    if len(chapters) < FEW_CHAPTERS and layout.words > MANY_WORDS:
        found.append(remark("few_chapters", n=len(chapters), words=layout.words))
    if missing := cutting.gaps([span.cut for span in layout.chapters]):
        found.append(remark("numbers_missing", n=len(missing), numbers=", ".join(map(str, missing[:10]))))
    left = sum(span.words for span in layout.left_out if span.cut.kind != "licence")
    if left > _LEFT_SHARE * max(1, words):
        found.append(remark("much_left_out", percent=round(100 * left / max(1, words))))
    return tuple(found)


def whole(text: str) -> Remark:
    """Why a text without chapters is looked at."""
    return remark("no_chapters", words=len(text.split()))
