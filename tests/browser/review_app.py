"""A program whose every letter needs a person, as ``retoma serve`` finds it."""

from __future__ import annotations

from dataclasses import dataclass

from retoma import Retoma, Review, Run, pipeline

KINDS = ("petition", "ruling", "contract", "minutes")


@dataclass(frozen=True, slots=True)
class Letter:
    """A letter: its number, and what it is in earnest."""

    number: int
    kind: str


@dataclass(frozen=True, slots=True)
class Kind:
    """What a letter is."""

    label: str


@pipeline("sort-letters")
async def sort_letters(letter: Letter, _run: Run) -> Kind:
    """Propose a kind, and be sure of none."""
    proposed = KINDS[letter.number % len(KINDS)]
    raise Review(
        Kind(proposed),
        "two kinds are about as likely",
        margin=letter.number / 1000,
        confidence=0.35 + (letter.number % 60) / 100,
        label=proposed,
        choices={each: Kind(each) for each in KINDS},
        title=f"letter {letter.number}.txt",
        text=f"Letter {letter.number}.\n\nTo whom it may concern: the undersigned refer to matter "
        f"{letter.number} and hereby submit this {letter.kind} for the records of the office.\n\n"
        "Nothing further has been agreed, and both sides keep their copies.",
        passage=f"hereby submit this {letter.kind}",
        version="prompt-3" if letter.number % 2 else "prompt-4",
    )


def app_of(settings: object = None) -> Retoma:
    """The program."""
    return Retoma(settings=settings, pipelines=[sort_letters])  # type: ignore[arg-type]


def __getattr__(name: str) -> Retoma:
    if name == "app":
        return app_of()
    raise AttributeError(name)
