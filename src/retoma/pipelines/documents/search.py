"""Pieces of documents by what they mean and by their words, in one ranking."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from retoma.app.fetch import fetch
from retoma.app.retoma import Retoma
from retoma.errors import ConfigurationError
from retoma.pipelines.documents import search_queries
from retoma.pipelines.documents.model import Found
from retoma.pipelines.documents.search_queries import NOWHERE, Packed, Place, Scored
from retoma.pipelines.questions import Fit, Weighed, blended, is_answered, sought
from retoma.pipelines.vectors import INDEXED, Extension, look_further, nearest, pgvector
from retoma.providers import Embedder, ProviderError

_LEAST = 30  # candidates of each kind, so that one found by both can rise
_AT_ONCE = 2_000  # vectors that are compared here at a time
_SECONDS = 20.0


async def search(app: Retoma, text: str, *, limit: int) -> list[Found]:
    """The *limit* best pieces, by their words and by their meaning; none when nothing here answers that."""
    text = " ".join(text.replace("\0", " ").split())
    if limit < 1:
        raise ConfigurationError(f"A search finds at least 1 piece, not {limit}.", next="Leave limit out for 10.")
    if not text:
        return []
    words = await weighed(app, text)
    by_words, by_meaning = await candidates(app, text, words, limit=limit)
    if not is_answered(by_words, by_meaning, app.provider(Embedder)):
        return []
    best = blended(by_words, by_meaning)[:limit]
    told = {
        Place(*each[:2]): each for each in await app.fetch(search_queries.shown(words, [place for place, _ in best]))
    }
    return [
        Found(*told[place], score=score, how=_how(place, by_meaning, by_words))
        for place, score in best
        if place in told  # one may have been removed meanwhile
    ]


async def candidates(
    app: Retoma, text: str, words: Sequence[Weighed], *, limit: int
) -> tuple[dict[Place, Fit], dict[Place, float]]:
    """The pieces among which the *limit* best are looked for: how each fits by its words, and by its meaning."""
    most = max(limit * 3, _LEAST)
    by_words = {
        Place(each.document_id, each.place): Fit(each.share, each.rank)
        for each in await app.fetch(search_queries.by_words(words, limit=most))
    }
    return by_words, _scores(await _by_meaning(app, text, most))


async def weighed(app: Retoma, text: str) -> list[Weighed]:
    """The words of a question, and what each is worth among the chunks."""
    return await app.fetch(search_queries.weighed(await app.fetch(sought(text))))


def _scores(found: Sequence[Scored]) -> dict[Place, float]:
    return {Place(each.document_id, each.place): each.score for each in found}


def _how(place: Place, meant: Container[Place], said: Container[Place]) -> str:
    if place in meant and place in said:
        return "both"
    return "meaning" if place in meant else "words"


async def _by_meaning(app: Retoma, text: str, limit: int) -> list[Scored]:
    """The chunks nearest in meaning; none when nobody can say what *text* means."""
    embedder: Embedder = app.provider(Embedder)
    try:
        (vector,) = await app.embed("search", embedder, [text], timeout=_SECONDS)
    except ProviderError:
        return []  # the words still find something; each piece says how it was found
    if embedder.dimensions in INDEXED and (extension := await pgvector(app)):
        return await by_index(app, vector, embedder, limit, extension)
    return await one_by_one(app, vector, embedder, limit)


async def by_index(
    app: Retoma, vector: Sequence[float], embedder: Embedder, limit: int, extension: Extension
) -> list[Scored]:
    """The nearest chunks, by the database's own index."""
    ask = search_queries.near if embedder.dimensions == INDEXED[0] else search_queries.near_wide
    async with app.transaction() as connection:
        if extension.looks_further:
            await fetch(connection, look_further())
        query = ask(vector, provider=embedder.provider, model=embedder.model, limit=limit)
        return await fetch(connection, query)


async def one_by_one(app: Retoma, vector: Sequence[float], embedder: Embedder, limit: int) -> list[Scored]:
    """The nearest chunks, each compared here; as many at a time as memory should hold."""
    best: list[tuple[Place, float]] = []
    after = NOWHERE
    while packed := await app.fetch(
        search_queries.vectors(
            provider=embedder.provider,
            model=embedder.model,
            dimensions=embedder.dimensions,
            after=after,
            limit=_AT_ONCE,
        )
    ):
        rows = [(Place(each.document_id, each.place), _unpacked(each)) for each in packed]
        best = sorted([*best, *nearest(vector, rows, limit)], key=lambda pair: -pair[1])[:limit]
        after = rows[-1][0]
    return [Scored(*place, score) for place, score in best]


def _unpacked(packed: Packed) -> Any:
    """The numbers of an array as PostgreSQL sends it: a head of 20 bytes, then each with its length before it."""
    import numpy as np  # noqa: PLC0415 - only where the database cannot compare

    return np.frombuffer(packed.vector, dtype=[("length", ">i4"), ("number", ">f4")], offset=20)["number"]
