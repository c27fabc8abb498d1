"""What a person decides about a list of chapters before anything is paid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from retoma.errors import ConfigurationError
from retoma.pipelines.books.ports import ChapterPlan
from retoma.pipelines.books.text import edits

Action = Literal["merge", "split", "rename", "leave_out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change to a list of chapters."""

    action: Action
    number: str
    """The chapter; of those that are merged the first."""
    last: str = ""
    """The last chapter that is merged."""
    begins: str = ""
    """The words that begin the second half of a chapter that is split; they begin a line of its text."""
    title: str = ""
    """The new title; for a split that of the second half, else its first line."""


def edited(plan: ChapterPlan, changes: Sequence[Edit]) -> ChapterPlan:
    """*plan* after *changes*, one after the other."""
    for change in changes:
        match change.action:
            case "merge":
                plan = edits.merge(plan, change.number, change.last)
            case "split":
                plan = edits.split(plan, change.number, _place(plan, change), title=change.title)
            case "rename":
                plan = edits.rename(plan, change.number, change.title)
            case "leave_out":
                plan = edits.leave_out(plan, change.number)
    return plan


def _place(plan: ChapterPlan, change: Edit) -> int:
    """The character before which the chapter is split."""
    text = next((each.text for each in plan.chapters if each.number == change.number), "")
    wanted = change.begins.strip()
    places = [at for at in _lines(text) if wanted and text.startswith(wanted, at)]
    if text and len(places) != 1:
        found = "no line" if not places else f"{len(places)} lines"
        raise ConfigurationError(
            f"Chapter {change.number} has {found} that begin with {wanted!r}.",
            next="Give more words of the line that begins the second half, as they stand there.",
        )
    return places[0] if places else 0


def _lines(text: str) -> list[int]:
    """Where lines begin."""
    return [0, *(at + 1 for at, letter in enumerate(text) if letter == "\n")]
