"""What readers and programs are told of a session, in the language of whoever asks."""

from __future__ import annotations

from collections.abc import Callable

from retoma.pipelines.books.model import Session
from retoma.pipelines.books.progress import Step
from retoma.web.words import phrases

Say = Callable[..., str]
"""Says a phrase of the pages in one language."""


def why(session: Session, say: Say) -> str | None:
    """Why a session stands still; None when it does not."""
    return None if session.reason is None else why_of(session.reason, session.state, say)


def why_of(reason: str, state: str, say: Say) -> str:
    """The sentence of *reason*, by its code; that of *state* where the code has none."""
    key = f"books.why.{reason.partition(':')[0].strip()}"
    return say(key if key in phrases("en") else f"books.why.{state}")


def message_of(step: Step, say: Say) -> str:
    """What *step* says."""
    if step.reason is not None:
        return why_of(step.reason, "failed" if step.stage == "error" else "paused", say)
    return say(f"books.step.{step.word}", **step.values)
