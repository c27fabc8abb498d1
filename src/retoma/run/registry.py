"""What both doors share: which pipelines there are, who provides what, and where the database is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, TypedDict, TypeVar, cast

from retoma import embedded, migrate
from retoma.chores import CHORES
from retoma.errors import ConfigurationError, UnknownPipeline
from retoma.pipeline import Pipeline
from retoma.settings import Settings

T = TypeVar("T")

HINT_SECONDS = 0.02
LATE_SECONDS = 0.025
"""A late hint waits a little longer, so that while jobs come one of them carries it."""


class Front:
    """The definitions of an app, checked when it is built."""

    def __init__(
        self,
        database_url: str | None,
        *,
        pipelines: Iterable[Pipeline[Any, Any]],
        providers: Mapping[type, object],
        settings: Settings | None,
    ) -> None:
        self.settings = settings or Settings.load(database_url=database_url)
        self.pipelines: dict[str, Pipeline[Any, Any]] = {}
        for each in (*CHORES, *pipelines):
            if each.name in self.pipelines:
                raise ConfigurationError(f"Two pipelines are called {each.name!r}.", next="Rename one of them.")
            self.pipelines[each.name] = each
        known = {Settings: self.settings, **providers}
        self.known = known
        self.providers = {name: _provided(each, known) for name, each in self.pipelines.items()}
        self._hinted: dict[str, float] = {}

    @property
    def own(self) -> list[str]:
        """The names of the user's pipelines, without the house's chores."""
        return sorted(name for name, each in self.pipelines.items() if each not in CHORES)

    @property
    def queues(self) -> list[str]:
        """The queues that the pipelines use."""
        return sorted({each.queue for each in self.pipelines.values()})

    def provider(self, protocol: type[T]) -> T:
        """Who provides *protocol* to the pipelines."""
        if protocol not in self.known:
            raise ConfigurationError(
                f"Nobody provides a {protocol.__name__} here.", next=f"Pass providers={{{protocol.__name__}: ...}}."
            )
        return cast(T, self.known[protocol])

    def pipeline(self, name: str) -> Pipeline[Any, Any]:
        """The pipeline of that name."""
        if name not in self.pipelines:
            known = ", ".join(self.own) or "none"
            raise UnknownPipeline(f"This app has no pipeline {name!r}; it has {known}.")
        return self.pipelines[name]

    def hint_due(self, queue: str) -> bool:
        """Whether to notify now: at most one hint per queue in a short while, because a notification takes a
        lock that every committing transaction of the server wants.
        """
        if self.hinted_ago(queue) < HINT_SECONDS:
            return False
        self._hinted[queue] = time.monotonic()
        return True

    def hinted_ago(self, queue: str) -> float:
        """Seconds since the last hint to whoever waits at *queue*."""
        return time.monotonic() - self._hinted.get(queue, 0.0)


def reach(settings: Settings) -> tuple[str, embedded.Embedded | None]:
    """Where the database is: the one that is set, or the embedded one, which is started."""
    if settings.database_url:
        return settings.database_url, None
    server = embedded.ensure(settings.home)
    return server.url, server


def prepare(settings: Settings, *, upgrade: bool | None) -> tuple[str, embedded.Embedded | None]:
    """Where the database is, with the right schema.

    The embedded one is upgraded by itself; one that is set is upgraded only when asked.
    """
    url, server = reach(settings)
    try:
        now = migrate.status(url, settings)
        if not now.ready and (upgrade or (upgrade is None and server is not None)):
            migrate.upgrade(url, settings)
            now = migrate.status(url, settings)
        migrate.require(now)
    except BaseException:
        if server is not None:
            server.release()
        raise
    return url, server


def _provided(pipeline: Pipeline[Any, Any], providers: Mapping[type, object]) -> dict[str, Any]:
    found = {}
    for name, wanted in pipeline.needs.items():
        if wanted not in providers:
            kind = getattr(wanted, "__name__", str(wanted))
            raise ConfigurationError(
                f"Pipeline {pipeline.name!r} asks for {name}: {kind}, and nobody provides one.",
                next=f"Pass providers={{{kind}: ...}} to Retoma.",
            )
        found[name] = providers[wanted]
    return found | {name: providers[wanted] for name, wanted in pipeline.likes.items() if wanted in providers}


def keys_of(key: str | Callable[[Any], str] | None) -> Callable[[Any], str | None]:
    """How each input gets its key."""
    if key is None or isinstance(key, str):
        return lambda _input: key
    if not callable(key):
        raise ConfigurationError(f"A key is a text, or a function that makes one of an input, not {key!r}.")
    return lambda each: str(key(each))


def always(_queue: str) -> bool:
    """Whether to hint inside a caller's transaction: it goes out with the commit, whenever that is."""
    return True


class Enqueueing(TypedDict, total=False):
    """What may be said with an enqueue, where it differs from the pipeline's own way."""

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


class Batching(TypedDict, total=False):
    """What may be said with a batch."""

    route: str
    """Where it was asked for, as people know the place: "/classificador/"."""
    labels: Mapping[str, str]
    configuration: Mapping[str, Any]
    """Prompt, model, parameters: the batch keeps them as they are now, and its jobs read them from the run."""
    correlation_id: str
    max_resumes: int
    """How often it may be resumed after it stalled (3)."""
    max_retries: int
    """How often a job may be tried again (the pipeline's own)."""
    max_failure_rate: float
    """Stop when a larger part of the jobs fails."""
    budget: Decimal
    at_once: int
    """How many of its jobs may run at the same time, over all workers."""
    stall_seconds: float
    """How long nothing may move before it is asked why (the pipeline's own)."""
    queue: str
    priority: int
    timeout: float


class Changing(TypedDict, total=False):
    """What may be changed of a batch."""

    name: str
    labels: Mapping[str, str]
    max_resumes: int
    max_failure_rate: float
    stall_seconds: float
    budget: Decimal
