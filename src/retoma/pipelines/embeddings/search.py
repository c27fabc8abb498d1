"""Texts found by what they mean and by their words, in one ranking."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from retoma.app.fetch import fetch
from retoma.app.retoma import Retoma
from retoma.errors import ConfigurationError
from retoma.pipelines import questions, vectors
from retoma.pipelines.embeddings import texts
from retoma.pipelines.embeddings.texts import Near, Space
from retoma.providers import Embedder
from retoma.values.text import unstorable_mark

MOST_CHARACTERS = 2_000
_SECONDS = 30.0
_CANDIDATES = 50
_PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """A source that says a text."""

    source_type: str
    source_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A text that answers: who says it, how near its meaning is (a cosine, when it is near at all), and its score."""

    sources: list[Speaker]
    score: float
    similarity: float | None
    content_hash: str
    language: str | None
    excerpt: str


async def search(app: Retoma, embedder: Embedder, query: str, *, organisation: str, site: str, limit: int) -> list[Hit]:
    """The *limit* texts that answer *query* best; none when nothing here answers that."""
    if not any(map(str.isalnum, query)) or len(query) > MOST_CHARACTERS or unstorable_mark(query):
        raise ConfigurationError(
            f"A search is 1 to {MOST_CHARACTERS:,} characters with a word among them, not {query[:80]!r}.",
            next="Ask in words.",
        )
    space = Space(organisation, site, embedder.provider, embedder.model)
    (wanted,) = await app.embed("search", embedder, [query], timeout=_SECONDS)
    most = max(_CANDIDATES, 2 * limit)
    near = await _near(app, space, wanted, most)
    words = await app.fetch(texts.weighed(await app.fetch(questions.sought(query))))
    found = await app.fetch(texts.worded(space, words, limit=most))
    by_words = {each.id: questions.Fit(each.share, each.rank) for each in found}
    similarity = {each.id: each.similarity for each in near}
    if not questions.is_answered(by_words, similarity, embedder):
        return []
    ranked = questions.blended(by_words, similarity)[:limit]
    told = {each.id: each for each in await app.fetch(texts.told([id for id, _ in ranked], words=words))}
    return [
        Hit(
            sources=[
                Speaker(source_type=kind, source_id=id)
                for kind, id in zip(said.source_types, said.source_ids, strict=True)
            ],
            score=score,
            similarity=similarity.get(id),
            content_hash=said.content_hash,
            language=said.language,
            excerpt=said.excerpt,
        )
        for id, score in ranked
        if (said := told.get(id))
    ]


async def _near(app: Retoma, space: Space, wanted: Sequence[float], most: int) -> list[Near]:
    indexed = {512: texts.near_small, 1536: texts.near_large}.get(len(wanted))
    extension = await vectors.pgvector(app) if indexed else None
    if indexed is None or extension is None:
        return await _exact(app, space, wanted, most)
    async with app.transaction() as conn:
        if extension.looks_further:
            await fetch(conn, vectors.look_further())
        return await fetch(conn, indexed(space, wanted, limit=most))


async def _exact(app: Retoma, space: Space, wanted: Sequence[float], most: int) -> list[Near]:
    """Every vector of the site looked at, page by page, so that a large site does not fill the memory."""
    best: list[Near] = []
    after = 0
    while page := await app.fetch(texts.page(space, dimensions=len(wanted), after=after, limit=_PAGE)):
        found = await asyncio.to_thread(vectors.nearest, wanted, page, most)
        best = sorted([*best, *(Near(*each) for each in found)], key=lambda near: -near.similarity)[:most]
        after = page[-1].id
    return best
