"""The options that callers may pass with an enqueue, a batch, a change or a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Literal, TypedDict

from retoma.errors import ConfigurationError
from retoma.model.job import JobState


def keys_of(key: str | Callable[[Any], str] | None) -> Callable[[Any], str | None]:
    """The key of each input."""
    if key is None or isinstance(key, str):
        return lambda _input: key
    if not callable(key):
        raise ConfigurationError(f"A key is a text, or a function that makes one of an input, not {key!r}.")
    return lambda each: str(key(each))


def always(_queue: str) -> bool:
    """Whether to notify inside a caller's transaction. PostgreSQL sends the notification with the
    commit, whenever that is.
    """
    return True


class Wanted(TypedDict, total=False):
    """Which jobs a list asks for."""

    state: JobState | str | None
    pipeline: str | None
    queue: str | None
    key: str | None
    batch_id: int | None
    before: int | None
    content: bool
    discarded: bool | None
    """Of the failed jobs, those that a person has settled, or those that nobody has."""


_ANY: Wanted = {"state": None, "pipeline": None, "queue": None, "key": None, "batch_id": None, "before": None}
LOOKS = 3
"""How many pages of rows a bounded search reads before it returns."""


def wanted_of(said: Wanted) -> Wanted:
    """The filter that a caller *said*; what was not said does not filter."""
    return {**_ANY, **said}


class Doing(TypedDict, total=False):
    """What an operation needs to know beside its action and its filter."""

    queue: str | None
    """Where "move" puts the jobs."""
    priority: int | None
    """What "priority" gives them."""
    attempts: int | None
    """How many more attempts "retry" and "restart" allow."""
    reason: str | None
    """Why "cancel" stops them, and "discard" settles them."""


class Enqueueing(TypedDict, total=False):
    """The options of an enqueue. They override the pipeline's own."""

    queue: str
    lane: str
    priority: int
    run_at: datetime
    delay: float
    expires: float
    timeout: float
    attempts: int
    correlation_id: str | Callable[[Any], str | None]
    if_taken: Literal["return", "raise"]


def refuse_unknown(said: Iterable[str], declared: type, what: str) -> None:
    """Refuse an option that *declared* does not name, with a helpful message."""
    names = declared.__annotations__
    for name in said:
        if name not in names:
            near = " or ".join(f"{each}=" for each in get_close_matches(name, names))
            raise ConfigurationError(
                f"{what} has no option {name!r}.",
                next=f"Did you mean {near}?" if near else f"There are {', '.join(names)}.",
            )


class Batching(TypedDict, total=False):
    """The options of a batch."""

    route: str
    """Where it was requested, by a name that people know: "/classificador/"."""
    labels: Mapping[str, str]
    configuration: Mapping[str, Any]
    """Prompt, model, parameters: the batch keeps a copy, and its jobs read it from the run."""
    correlation_id: str
    max_resumes: int
    """How often it may be resumed after a stall (3)."""
    max_retries: int
    """How often a job may be retried (the pipeline's own)."""
    max_failure_rate: float
    """Stop when a larger share of the jobs fails."""
    budget: Decimal
    at_once: int
    """How many of its jobs may run at the same time, over all workers."""
    stall_seconds: float
    """How long nothing may move before the batch is diagnosed (the pipeline's own)."""
    queue: str
    priority: int
    timeout: float
    pilot: int
    """How many jobs run first; the others are held until they are released. 0 is no pilot."""


class Changing(TypedDict, total=False):
    """What may be changed of a batch; None lifts a limit, or removes all labels."""

    name: str
    labels: Mapping[str, str] | None
    max_resumes: int
    max_failure_rate: float | None
    stall_seconds: float
    budget: Decimal | None
