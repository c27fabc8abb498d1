"""How far a session is, as steps that are the same for everybody who looks and never go back.

A step follows from its number alone: the first is that the book was sent, the second that its chapters are known, then
one for each chapter that is saved, and the last that all are. Whoever comes back with the number of the last step that
they saw misses nothing and hears nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
    message: str
    error: str | None = None

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


def standing(session: Session, *, content: bool) -> Step:
    """Where the session is now. What went wrong is told in full with *content*, and else by its code."""
    now = _step(reached(session), session.chapters)
    if session.state not in ("paused", "failed"):
        return now
    why = session.reason or "stopped"
    why = why if content else why.partition(":")[0]
    return Step(
        seq=None,
        stage="paused" if session.state == "paused" else "error",
        percentage=now.percentage,
        message=_WHY.get(why, now.message) if session.state == "paused" else now.message,
        error=why if session.state == "failed" else None,
    )


def _step(seq: int, chapters: int) -> Step:
    if seq == _SENT:
        return Step(seq=seq, stage="initializing", percentage=0, message="Livro recebido; procurando os capítulos.")
    done = seq - _PLANNED
    if done > chapters:
        return Step(seq=seq, stage="complete", percentage=100, message="Todos os capítulos estão prontos.")
    percentage = _READ + (_ALL - _READ) * done // max(1, chapters)
    return Step(
        seq=seq, stage="processing", percentage=percentage, message=f"{done} de {chapters} capítulos prontos e salvos."
    )


_WHY = {
    "review": "A lista de capítulos espera a conferência de uma pessoa; nada foi cobrado.",
    "input_missing": "Falta o livro: só os checkpoints foram importados.",
}
