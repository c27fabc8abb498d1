"""Books for the pages: prose in chapters, as a text and as a PDF, and an editor that can be made to stumble."""

from __future__ import annotations

import sys
from pathlib import Path

from retoma.pipelines.books.ports import Ask, Chapter, Digest, Editor
from retoma.pipelines.books.text.editors import LocalEditor
from retoma.pipelines.books.text.pdf import Block, pdf
from retoma.providers import BlobStore, Extractor, RequestRejected
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalExtractor
from retoma.providers.local.encoder import Lexical

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "books"))

from made_books import Writer

TITLES = ("A casa da salina", "O que Helena viu", "Uma carta sem nome", "Da ponte à escola")
SECOND_HALF = "Depois da chuva, que durou três dias, ninguém mais falou da salina."
"""With it begins what should be a chapter of its own."""


class StumblingEditor(LocalEditor):
    """Sums up as the one of this machine; what it was asked is written down, and what it is told to refuse it does."""

    def __init__(self) -> None:
        super().__init__(Lexical())
        self.asked: list[str] = []
        self.refused: set[str] = set()

    async def summarise(self, chapter: Chapter, *, ask: Ask | None, timeout: float) -> Digest:
        self.asked.append(chapter.number)
        if chapter.number in self.refused:
            raise RequestRejected("It is too long.", provider="test", paid=False)
        return await super().summarise(chapter, ask=ask, timeout=timeout)


def providers(folder: Path, editor: Editor) -> dict[type, object]:
    return {BlobStore: FolderBlobs(folder), Extractor: LocalExtractor(), Editor: editor}


def chapters(seed: int = 7, words: int = 700) -> list[tuple[str, list[str]]]:
    """Titles and paragraphs, in Portuguese."""
    writer = Writer(seed)
    writer.language = "pt"
    return [(title, writer.paragraphs(words)) for title in TITLES]


def text(seed: int = 7, words: int = 700) -> str:
    """A book as somebody pastes it."""
    parts = []
    for number, (title, paragraphs) in enumerate(chapters(seed, words), start=1):
        parts += [f"CAPÍTULO {number}", title, *paragraphs]
    return "\n\n".join(parts)


def doubtful(seed: int = 7) -> str:
    """A book whose second chapter holds nearly all of it: a person must look."""
    (one, two, three, four) = chapters(seed, 500)
    parts = ["CAPÍTULO 1", one[0], *one[1][:4], "CAPÍTULO 2", two[0], *two[1], SECOND_HALF, *three[1], *four[1]]
    return "\n\n".join([*parts, "CAPÍTULO 3", three[0], *three[1][:3]])


def as_pdf(seed: int = 7, words: int = 700) -> bytes:
    """The same with pages."""
    blocks = []
    for number, (title, paragraphs) in enumerate(chapters(seed, words), start=1):
        blocks += [Block("heading", f"Capítulo {number}: {title}"), *(Block("text", each) for each in paragraphs)]
    return pdf(blocks, title="A salina e o vento", language="pt-BR")
