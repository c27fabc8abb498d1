"""What programs do with embeddings: add texts, see how they stand, find them by what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from retoma.app.fetch import fetch
from retoma.app.retoma import Retoma
from retoma.errors import ConfigurationError, NotFound
from retoma.model.job import JobState, Receipt
from retoma.pipelines.embeddings import sources, texts
from retoma.pipelines.embeddings.pipeline import NAME, Text, embeddings, hash_of
from retoma.pipelines.embeddings.search import Hit, search
from retoma.pipelines.embeddings.sources import Beginning, Source, Version
from retoma.providers import Embedder
from retoma.values.text import unstorable_mark

MOST_CHARACTERS = 100_000
LONGEST = {"organisation": 100, "site": 100, "source_type": 100, "source_id": 300, "language": 35}
"""Characters that the names of a text may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewText:
    """What a source says now."""

    organisation: str
    site: str
    source_type: str
    source_id: str
    content: str
    language: str | None = None

    @property
    def source(self) -> Source:
        return (self.organisation, self.site, self.source_type, self.source_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What became of a text that was added: the job of its content, and whether that is *new* work."""

    source_type: str
    source_id: str
    version: int
    active: bool
    """Whether the source is found by this content now; else once its job is completed."""
    content_hash: str
    job_id: int
    state: JobState
    new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How many vectors there are, and how many versions of sources are in which state."""

    stored: int
    states: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Work:
    """The job of a content, and whether its vector is there."""

    job_id: int
    state: JobState
    new: bool
    stored: bool


class Embeddings:
    """The embeddings of an app: ``Embeddings(app)``."""

    def __init__(self, app: Retoma) -> None:
        self._app = app

    async def add(self, text: NewText, *, conn: object = None, correlation_id: str | None = None) -> Added:
        """Say what a source says now. Content that was embedded before, for whatever source, is no new work."""
        return (await self.add_many([text], conn=conn, correlation_id=correlation_id))[0]

    async def add_many(
        self, new: Iterable[NewText], *, conn: object = None, correlation_id: str | None = None
    ) -> list[Added]:
        """The same for many texts, all or none; with *conn* they commit with the caller's rows."""
        said = list(new)
        for text in said:
            _check(text)
        if not said:
            return []
        if conn is not None:
            return await self._add(said, conn, correlation_id)
        async with self._app.transaction() as own:
            return await self._add(said, own, correlation_id)

    async def status(self, organisation: str | None = None, site: str | None = None) -> Status:
        """How far the texts are: of all, of an organisation, or of one site of it."""
        found = await self._app.fetch(sources.states(organisation, site))
        (stored,) = await self._app.fetch(texts.stored(organisation, site))
        return Status(stored=stored, states=dict(found))

    async def source(self, organisation: str, site: str, source_type: str, source_id: str) -> list[Version]:
        """The versions of one source, the newest first."""
        found = await self._app.fetch(sources.versions((organisation, site, source_type, source_id)))
        if not found:
            raise NotFound(
                f"Nothing was added for source {source_type} {source_id!r} of {organisation}/{site}.",
                next="'retoma embeddings status' shows what is there.",
            )
        return found

    async def search(self, query: str, *, organisation: str, site: str, limit: int = 10) -> list[Hit]:
        """The texts of a site that answer *query* best, by meaning and by words; only what sources say now."""
        return await search(self._app, self._embedder, query, organisation=organisation, site=site, limit=limit)

    # — adding —

    @property
    def _embedder(self) -> Embedder:
        return self._app.provider(Embedder)

    async def _add(self, said: Sequence[NewText], conn: object, correlation_id: str | None) -> list[Added]:
        await fetch(conn, texts.hold([(text.organisation, text.site) for text in said]))
        work = await self._work(said, conn, correlation_id)
        versions: dict[int, tuple[int, bool]] = {}
        for places in _rounds(said):
            versions |= await self._versions(said, places, work, conn, correlation_id)
        asked: set[str] = set()
        added = []
        for place, text in enumerate(said):
            its = work[place]
            version, active = versions[place]
            key = self._text(text).key
            added.append(
                Added(
                    source_type=text.source_type,
                    source_id=text.source_id,
                    version=version,
                    active=active,
                    content_hash=hash_of(text.content),
                    job_id=its.job_id,
                    state=its.state,
                    new=its.new and key not in asked,
                )
            )
            asked.add(key)
        return added

    def _text(self, text: NewText) -> Text:
        return Text(
            organisation=text.organisation,
            site=text.site,
            content_hash=hash_of(text.content),
            content=text.content,
            language=text.language,
            provider=self._embedder.provider,
            model=self._embedder.model,
        )

    async def _work(self, said: Sequence[NewText], conn: object, correlation_id: str | None) -> list[_Work]:
        """For each text the work that its content is: done, under way, or queued now."""
        wanted = [self._text(text) for text in said]
        by_key = {text.key: text for text in wanted}
        contents = [(text.organisation, text.site, text.content_hash) for text in by_key.values()]
        embedder = self._embedder
        found = await fetch(conn, texts.known(contents, provider=embedder.provider, model=embedder.model))
        keys = list(by_key)
        work = {keys[each.place - 1]: _Work(each.job_id, JobState.COMPLETED, new=False, stored=True) for each in found}
        missing = [text for key, text in by_key.items() if key not in work]
        options: dict[str, Any] = {} if correlation_id is None else {"correlation_id": correlation_id}
        receipts = await self._app.enqueue_many(embeddings, missing, key=lambda text: text.key, conn=conn, **options)
        for text, receipt in zip(missing, receipts, strict=True):
            state = await self._revived(receipt, conn)
            work[text.key] = _Work(receipt.id, state, new=receipt.new, stored=False)
        return [work[text.key] for text in wanted]

    async def _revived(self, receipt: Receipt, conn: object) -> JobState:
        # Its vector was there when it ended, and somebody removed it since.
        if receipt.state not in (JobState.COMPLETED, JobState.SKIPPED):
            return receipt.state
        return (await self._app.jobs.restart(receipt.id, conn=conn)).state

    async def _versions(
        self,
        said: Sequence[NewText],
        places: Sequence[int],
        work: Sequence[_Work],
        conn: object,
        correlation_id: str | None,
    ) -> dict[int, tuple[int, bool]]:
        """The version of each source, by place, and whether it is found by it now; a new one for what is new."""
        by = {"provider": self._embedder.provider, "model": self._embedder.model}
        found = await fetch(conn, sources.latest([said[place].source for place in places], **by))
        latest = {places[each.place - 1]: each for each in found}
        versions, beginnings, waiting = {}, [], []
        for place in places:
            text, its, before = said[place], work[place], latest.get(place)
            content_hash = hash_of(text.content)
            if before is not None and before.content_hash == content_hash:
                versions[place] = (before.version, before.active)
                if not before.active and before.job_id != its.job_id:
                    waiting.append((before.id, its.job_id))
                continue
            version = 1 if before is None else before.version + 1
            versions[place] = (version, its.stored)
            beginnings.append(Beginning(text.source, version, content_hash, text.language, its.job_id, its.stored))
        if waiting:
            await fetch(conn, sources.assign(waiting))
        if beginnings:
            await fetch(conn, sources.supersede(beginnings, **by))
            await fetch(conn, sources.begin(beginnings, **by, correlation_id=correlation_id))
        return versions


def _rounds(said: Sequence[NewText]) -> Iterator[list[int]]:
    """The places of the texts in rounds in which no source comes twice, in the order in which it speaks."""
    rounds: list[list[int]] = []
    spoken: dict[Source, int] = {}
    for place, text in enumerate(said):
        turn = spoken[text.source] = spoken.get(text.source, -1) + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(place)
    yield from rounds


def _check(text: NewText) -> None:
    for name, most in LONGEST.items():
        value = getattr(text, name)
        if name == "language" and value is None:
            continue
        if not value or len(value) > most or unstorable_mark(value):
            raise ConfigurationError(
                f"The {name} of a text has 1 to {most} characters and no NUL, not {value[:80]!r}.",
                next=f"Give source {text.source_id[:80]!r} another {name}.",
            )
    if not any(map(str.isalnum, text.content)):
        raise ConfigurationError(
            f"Source {text.source_id!r} says nothing: there is no word in its content.", next="Leave it out."
        )
    if len(text.content) > MOST_CHARACTERS or unstorable_mark(text.content):
        raise ConfigurationError(
            f"The content of source {text.source_id!r} has {len(text.content):,} characters; at most "
            f"{MOST_CHARACTERS:,} may be embedded as one text, and no NUL among them.",
            next="Cut it, or add it as a document: those are cut by themselves.",
        )


__all__ = ["NAME", "Added", "Embeddings", "Hit", "NewText", "Status", "Version"]
