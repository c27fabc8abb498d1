"""What the async and the sync app share: the pipelines, their providers, and the database URL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar, cast

from retoma.errors import ConfigurationError, UnknownPipeline
from retoma.run.pipeline import Pipeline, must_be_pipeline
from retoma.system.settings import Settings

T = TypeVar("T")

HINT_SECONDS = 0.02
LATE_SECONDS = 0.025
"""A late hint is sent a little later, so that under steady traffic one of the following jobs carries it."""


class Registry:
    """The definitions of an app, validated when it is built."""

    def __init__(
        self,
        database_url: str | None,
        *,
        pipelines: Iterable[Pipeline[Any, Any]],
        maintenance: Iterable[Pipeline[Any, Any]] = (),
        providers: Mapping[type, object],
        settings: Settings | None,
    ) -> None:
        self.settings = settings or Settings.load(database_url=database_url)
        if database_url is not None:
            _check_address(database_url)
            # An explicit argument overrides the settings.
            self.settings = self.settings.model_copy(update={"database_url": database_url})
        self.pipelines: dict[str, Pipeline[Any, Any]] = {}
        maintenance = tuple(maintenance)
        self._maintenance = {each.name for each in maintenance}
        for each in (*maintenance, *_with_last_steps(pipelines)):
            must_be_pipeline(each)
            if each.name in self.pipelines:
                raise ConfigurationError(f"Two pipelines are called {each.name!r}.", next="Rename one of them.")
            self.pipelines[each.name] = each
        known = {Settings: self.settings, **providers}
        self.providers = known
        self.provided = {name: _provided(each, known) for name, each in self.pipelines.items()}
        self._hinted: dict[str, float] = {}

    @property
    def own(self) -> list[str]:
        """The names of the user's pipelines, without the maintenance jobs of the engine."""
        return sorted(self.pipelines.keys() - self._maintenance)

    @property
    def queues(self) -> list[str]:
        """The queues that the pipelines use."""
        return sorted({each.queue for each in self.pipelines.values()})

    def provider(self, protocol: type[T] | Callable[..., T]) -> T:
        """The provider of *protocol* for the pipelines. The type allows protocols, which are abstract classes."""
        found = self.providers.get(cast(type, protocol))
        if found is None:
            name = getattr(protocol, "__name__", str(protocol))
            raise ConfigurationError(f"Nobody provides a {name} here.", next=f"Pass providers={{{name}: ...}}.")
        return cast(T, found)

    def pipeline(self, name: str) -> Pipeline[Any, Any]:
        """The pipeline of that name."""
        if name not in self.pipelines:
            known = ", ".join(self.own) or "none"
            near = near_to(name, self.own)
            raise UnknownPipeline(
                f"This app has no pipeline {name!r}; it has {known}.",
                next=f"Did you mean {near}?" if near else "Add it to pipelines=[…] of the app, or name another app.",
            )
        return self.pipelines[name]

    def hint_due(self, queue: str) -> bool:
        """Whether to notify now. Each queue gets at most one hint in a short while, because a notification takes a lock
        that every committing transaction of the server needs.
        """
        if self.hinted_ago(queue) < HINT_SECONDS:
            return False
        self._hinted[queue] = time.monotonic()
        return True

    def hinted_ago(self, queue: str) -> float:
        """Seconds since the last hint for *queue*."""
        return time.monotonic() - self._hinted.get(queue, 0.0)


def near_to(name: str, known: Sequence[str]) -> str:
    """Those of the *known* names that are like *name*, as they are told; empty when there is none."""
    return " or ".join(map(repr, get_close_matches(name, known)))


def _check_address(url: str) -> None:
    """Refuse the URL of another kind of database early. The rest of the URL is checked when it is opened."""
    if not isinstance(url, str):
        raise ConfigurationError(
            f"The database's address is a text, and this is a value of type {type(url).__name__}.",
            next='Write Retoma("postgresql://user:password@host:5432/database", pipelines=[...]).',
        )
    scheme, sign, _ = url.partition("://")
    if not url or scheme in ("postgresql", "postgres"):
        return
    if sign and scheme.partition("+")[0] in ("postgresql", "postgres"):
        raise ConfigurationError(
            f"The database's address begins with {scheme}://, as SQLAlchemy writes it.",
            next="Write postgresql:// instead; Retoma brings its own driver.",
        )
    # The rest of the URL may contain a password.
    begins = f"This address begins with {scheme[:20]}://." if sign else "This is no address of that kind."
    raise ConfigurationError(
        f"Retoma keeps its jobs in PostgreSQL and in nothing else. {begins}",
        next="Write postgresql://user:password@host:5432/database, or no address at all: "
        "then DATABASE_URL is used, or an embedded PostgreSQL.",
    )


def listed(pipelines: Iterable[Pipeline[Any, Any]]) -> Iterable[Pipeline[Any, Any]]:
    """The same *pipelines*, if they are a collection and not a single object."""
    if isinstance(pipelines, Iterable):
        return pipelines
    raise ConfigurationError("One pipeline was given where a list of them is needed.", next="Write pipelines=[...].")


def _with_last_steps(pipelines: Iterable[Pipeline[Any, Any]]) -> list[Pipeline[Any, Any]]:
    """The *pipelines*, and the last steps of their batches that are not among them."""
    found = list(pipelines)
    for last in [getattr(each, "finish", None) for each in found]:  # what is no pipeline is refused later
        if last is not None and not any(each is last for each in found):
            found.append(last)
    return found


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
    return found | {name: providers[wanted] for name, wanted in pipeline.optional.items() if wanted in providers}
