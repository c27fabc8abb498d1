"""How far a session is, as steps that are the same for everybody who looks and never go back.

A step follows from its number alone: the first is that the book was sent, the second that its chapters are known, then
one for each chapter that is saved, and the last that all are. Whoever comes back with the number of the last step that
they saw misses nothing and hears nothing twice. A step holds a word and its values, and each listener hears it in their
own language.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from retoma.pipelines.books.model import Session

Stage = Literal["initializing", "processing", "complete", "paused", "error"]
_SENT, _PLANNED = 1, 2
_READ = 5
"""Percent once the chapters are known."""
_ALL = 95
"""Percent once all of them are saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step. *seq* is None for a standstill, which is no step: the work may go on."""

    seq: int | None
    stage: Stage
    percentage: int
    word: str
    """Which sentence says it: "sent", "chapters" or "complete"."""
    values: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None
    """Why it stands still: a code, with its details where they may be told."""

    @property
    def error(self) -> str | None:
        """What went wrong."""
        return self.reason if self.stage == "error" else None

    @property
    def complete(self) -> bool:
        """Whether nothing follows."""
        return self.stage == "complete"


def reached(session: Session) -> int:
    """The number of the last step that *session* has taken."""
    if session.planned_at is None:
        return _SENT
    done = min(session.done, session.chapters)
    return _PLANNED + done + (session.state == "done")


def steps(session: Session, after: int = 0) -> Iterator[Step]:
    """What happened after step *after*."""
    for seq in range(max(0, after) + 1, reached(session) + 1):
        yield _step(seq, session.chapters)


def standing(session: Session, *, content: bool, heard: int = 0) -> Step:
    """Where the session is now, and never before the step that was *heard* already. What went wrong is told in full
    with *content*, and else by its code.
    """
    now = _step(max(reached(session), heard), session.chapters)
    if session.state not in ("paused", "failed"):
        return now
    why = session.reason or "stopped"
    return Step(
        seq=None,
        stage="paused" if session.state == "paused" else "error",
        percentage=now.percentage,
        word=now.word,
        values=now.values,
        reason=why if content else why.partition(":")[0],
    )


def _step(seq: int, chapters: int) -> Step:
    if seq == _SENT:
        return Step(seq=seq, stage="initializing", percentage=0, word="sent")
    done = seq - _PLANNED
    if done > chapters:
        return Step(seq=seq, stage="complete", percentage=100, word="complete")
    percentage = _READ + (_ALL - _READ) * done // max(1, chapters)
    return Step(
        seq=seq, stage="processing", percentage=percentage, word="chapters", values={"done": done, "n": chapters}
    )
