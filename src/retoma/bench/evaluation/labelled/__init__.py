"""Small labelled texts, all written for this purpose, and how to read them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from retoma.pipelines.classification.labels import house_labels as labels

__all__ = ["Labelled", "book", "documents", "kinds", "labels"]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text whose kind is known."""

    kind: str
    language: str
    split: str
    """"dev", which chose the thresholds, or "test", which the figures are told from."""

    text: str


def documents(split: str | None = None) -> tuple[Labelled, ...]:
    """The labelled texts, or those of one *split*."""
    found = []
    for block in _read("documents.txt").split("\n## ")[1:]:
        head, _, text = block.partition("\n")
        kind, language, own = head.rsplit(" ", 2)
        found.append(Labelled(kind, language, own, text.strip()))
    return tuple(each for each in found if split in {None, each.split})


def kinds() -> list[str]:
    """The kinds that these texts are of; the house knows more of them."""
    return sorted({each.kind for each in documents()})


def book(language: str) -> str:
    """A small book, "pt" or "en"."""
    return _read(f"book.{language}.txt")


def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
