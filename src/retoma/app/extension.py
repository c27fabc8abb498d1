"""An extension: what a product brings besides its handlers.

Every part is named as ``module:attribute`` and imported when it is used, so that an unused extension costs nothing. An
installed package offers one with an entry point of the group ``retoma.extensions``.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from retoma.errors import ConfigurationError

if TYPE_CHECKING:
    from retoma.postgres.migrate import Branch
    from retoma.run.pipeline import Pipeline
    from retoma.store.query import Query

GROUP = "retoma.extensions"
_SCHEMA = re.compile(r"[a-z][a-z0-9_]{0,62}")
_RESERVED = ("retoma", "public", "information_schema")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounted:
    """A router of the site with a prefix of its own, outside /api/v1."""

    router: str
    prefix: str = ""
    described: bool = True
    """Whether the OpenAPI description includes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link in the header of every page."""

    path: str
    word: str
    """The key of its text in the words files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A command of the command line."""

    command: str
    sentence: str
    section: str = "Look and act"
    """The section of the help that lists it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What a product brings. Only its name and its pipelines are required."""

    name: str
    pipelines: str
    """A tuple of pipelines. Those with a cron expression are scheduled when a worker starts."""
    migrations: str | None = None
    """The package with ``versions/`` and ``grants.toml``. The tables have their own PostgreSQL schema and their
    own chain of revisions.
    """
    schema: str = ""
    """The name of that schema; by default the name of the extension."""
    api: str | None = None
    """A router that becomes part of the API, under /api/v1."""
    site: tuple[Mounted, ...] = ()
    """Routers of the whole site: pages, and routes at addresses of their own."""
    links: tuple[Link, ...] = ()
    package: str | None = None
    """The package with ``templates/``, ``static/``, ``states.toml``, ``fields.toml``, and its words:
    ``words/en.toml`` and ``pt.toml`` of the pages; in Portuguese, ``words/sentences.toml`` of the errors and
    ``words/cli.toml`` of the commands. Any of them may be missing."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """A description of each group of its operations, for the OpenAPI description."""
    audited: Mapping[str, str] = field(default_factory=dict)
    """The kind of thing behind each noun in its paths, as the audit names it."""
    standing: str | None = None
    """A mapping from such a kind to a function of an id: the query for the current state of that thing, as JSON. The
    audit keeps it from before and after a change.
    """
    reviews: str | None = None
    """An object with the four functions of ``retoma.commands.reviews.Adapter``: what is in doubt, what a person sees of
    it, and how a decision is applied and undone. Its items appear at the review desk.
    """
    replans: str | None = None
    """The path of the page on which the rest of a batch of its pipelines is re-planned, with ``{id}`` for the batch.
    The console leads there; without it, the console says that this cannot be done.
    """
    commands: Mapping[str, Offered] = field(default_factory=dict)
    checks: str | None = None
    """A function that ``retoma doctor`` calls with an open app."""

    def __post_init__(self) -> None:
        schema = self.schema or self.name.replace("-", "_")
        if not _SCHEMA.fullmatch(schema) or schema in _RESERVED or schema.startswith("pg_"):
            raise ConfigurationError(
                f"The extension {self.name!r} cannot have the schema {schema!r}.",
                next="Use small letters, digits and underscores, and a name that is not taken.",
            )
        object.__setattr__(self, "schema", schema)

    def branch(self) -> Branch | None:
        """The chain of revisions of its tables."""
        from retoma.postgres.migrate import Branch  # noqa: PLC0415 - it imports a driver

        return None if self.migrations is None else Branch(self.name, self.schema, self.migrations)

    def load_pipelines(self) -> tuple[Pipeline[Any, Any], ...]:
        """Its pipelines."""
        return tuple(load(self.pipelines))


def standing_of(extensions: Iterable[Extension]) -> Mapping[str, Callable[[str], Query[str]]]:
    """The state queries of *extensions*, by kind."""
    return {kind: ask for each in extensions if each.standing for kind, ask in load(each.standing).items()}


def reviews_of(extensions: Iterable[Extension]) -> Mapping[str, Any]:
    """What *extensions* offer to the review desk, by their names."""
    return {each.name: load(each.reviews) for each in extensions if each.reviews}


def load(reference: str) -> Any:
    """The object that ``module:attribute`` names."""
    module, _, attribute = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ModuleNotFoundError, AttributeError) as error:
        raise ConfigurationError(
            f"An extension names {reference!r}, and that is not there ({error}).",
            next="Install the package that brings it, or correct the name.",
        ) from error


def installed() -> list[Extension]:
    """The extensions that installed packages offer, by name."""
    found = [each.load() for each in sorted(entry_points(group=GROUP), key=lambda each: each.name)]
    for each in found:
        if not isinstance(each, Extension):
            raise ConfigurationError(f"An entry point of {GROUP} leads to {each!r}, which is no Extension.")
    return unique(found)


def branches_of(extensions: Iterable[Extension]) -> list[Branch]:
    """The branches of the engine's tables and of *extensions*."""
    from retoma.postgres.migrate import ENGINE  # noqa: PLC0415

    return [ENGINE, *(branch for each in extensions if (branch := each.branch()) is not None)]


def unique(extensions: Iterable[Extension]) -> list[Extension]:
    """The same extensions without repetitions; two different ones with the same name are refused."""
    known: dict[str, Extension] = {}
    for each in extensions:
        _must_be_extension(each)
        if known.setdefault(each.name, each) != each:
            raise ConfigurationError(f"Two extensions are called {each.name!r}.", next="Install or list only one.")
    return list(known.values())


def _must_be_extension(given: object) -> None:
    if isinstance(given, Extension):
        return
    from retoma.run.pipeline import Pipeline  # noqa: PLC0415 - it imports a driver

    if isinstance(given, Pipeline):
        raise ConfigurationError(
            f"{given.name!r} is a pipeline, and was given as an extension.", next="List it in pipelines=[...] instead."
        )
    raise ConfigurationError(
        f"An extension is needed here, and this is a value of type {type(given).__name__}.",
        next='Pass Extension(name="...", pipelines="module:attribute"), or list functions in pipelines=[...].',
    )
