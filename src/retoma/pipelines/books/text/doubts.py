"""Why a person should look at a list of chapters before anything is paid, in the language of the book."""

from __future__ import annotations

from collections.abc import Sequence

from retoma.pipelines.books.ports import Chapter
from retoma.pipelines.books.text import cuts as cutting
from retoma.pipelines.books.text.language import language_of
from retoma.pipelines.books.text.layout import FEW_CHAPTERS, MANY_WORDS, MOST_SHARE, Layout

_LEFT_SHARE = 0.4


def of(layout: Layout, chapters: Sequence[Chapter], words: int) -> tuple[str, ...]:
    """What speaks against *layout*; nothing when it can be trusted."""
    portuguese = language_of(chapters[0].text if chapters else "") == "pt"
    found = []
    if layout.share > MOST_SHARE and layout.largest:
        title, share = layout.largest.cut.title or layout.largest.cut.number, round(layout.share * 100)
        found.append(
            f"O capítulo “{title}” tem {share} % das palavras: pode haver capítulos dentro dele."
            if portuguese
            else f"Chapter “{title}” has {share} % of the words: there may be chapters inside it."
        )
    if len(chapters) < FEW_CHAPTERS and layout.words > MANY_WORDS:
        found.append(
            f"Só {len(chapters)} capítulos em {layout.words} palavras: é pouco para um livro assim."
            if portuguese
            else f"Only {len(chapters)} chapters in {layout.words} words: that is few for such a book."
        )
    if missing := cutting.gaps([span.cut for span in layout.chapters]):
        listed = ", ".join(map(str, missing[:10]))
        found.append(
            f"A numeração salta: falta {listed}." if portuguese else f"The numbering skips: {listed} is missing."
        )
    left = sum(span.words for span in layout.left_out if span.cut.kind != "licence")
    if left > _LEFT_SHARE * max(1, words):
        share = round(100 * left / max(1, words))
        found.append(
            f"{share} % das palavras ficaram de fora: confira o que não é capítulo."
            if portuguese
            else f"{share} % of the words are left out: check what is no chapter."
        )
    return tuple(found)


def whole(text: str) -> str:
    """Why a text without chapters is looked at."""
    words = len(text.split())
    if language_of(text) == "pt":
        return f"Nenhum capítulo foi encontrado em {words} palavras: o texto inteiro é o capítulo 1."
    return f"No chapter was found in {words} words: the whole text is chapter 1."
