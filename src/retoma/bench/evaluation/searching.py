"""Search on the held-out set: questions in other words than the passage that answers them, among all other passages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

import numpy as np
import psycopg

from retoma import Retoma
from retoma.app.extension import branches_of
from retoma.bench import figures as rows
from retoma.bench.evaluation import heldout
from retoma.bench.evaluation.figures import Figures, share, wilson
from retoma.pipelines import DOCUMENTS
from retoma.pipelines.documents import contents, search_queries
from retoma.pipelines.documents import search as searches
from retoma.pipelines.documents.model import Chunk
from retoma.pipelines.questions import evidence
from retoma.postgres import migrate
from retoma.postgres.prepare import reach
from retoma.providers import Embedder
from retoma.providers.factory import providers_from
from retoma.system.settings import Settings

_TOP = 10
_TIMEOUT = 600.0
_DATABASE = "retoma_accuracy"

Ranks = Mapping[str, Sequence[int]]
"""For each way of searching, the rank at which each question found its passage; 0 where it did not."""


async def search(*, split: str = "test") -> Figures:
    """By words, by meaning and by both, in a database that is made for it and dropped."""
    settings = Settings.load()
    url, server = await asyncio.to_thread(reach, settings)
    if server is not None:
        url = server.superuser_url
    own = f"{url.rpartition('/')[0]}/{_DATABASE}"
    try:
        await asyncio.to_thread(_make, url)
        await asyncio.to_thread(migrate.upgrade, own, settings, branches=branches_of([DOCUMENTS]))
        found = settings.model_copy(update={"database_url": own})
        async with Retoma(settings=found, extensions=[DOCUMENTS], providers=providers_from({})) as app:
            return await measured(app, split=split)
    finally:
        await asyncio.to_thread(_drop, url)
        if server is not None:
            server.release()


def _make(url: str) -> None:
    _drop(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create database {_DATABASE}")


def _drop(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"drop database if exists {_DATABASE} with (force)")


async def measured(app: Retoma, *, split: str) -> Figures:
    """The figures, in a database that has the tables of documents and nothing in them."""
    passages = _passages(split)
    embedder = app.provider(Embedder)
    await _fill(app, [each.text for each in passages], embedder)
    asked = [(question, UUID(int=place)) for place, each in enumerate(passages, 1) for question in each.questions]
    ranks: dict[str, list[int]] = {"words": [], "meaning": [], "hybrid": []}
    for question, answer in asked:
        (vector,) = (await embedder.embed([question], timeout=_TIMEOUT)).vectors
        near = await searches.one_by_one(app, vector, embedder, _TOP)
        said = await app.fetch(search_queries.by_words(await searches.weighed(app, question), limit=_TOP))
        both = await searches.search(app, question, limit=_TOP)
        for way, found in (("words", said), ("meaning", near), ("hybrid", both)):
            places = [each.document_id for each in found]
            ranks[way].append(places.index(answer) + 1 if answer in places else 0)
    return {
        "split": split,
        "questions": len(asked),
        "passages": len(passages),
        "chance_at_1": round(1 / len(passages), 4),
        **{way: _told(found) for way, found in ranks.items()},
        "nothing_answers": await _unanswered(app, asked, split),
    }


async def _unanswered(app: Retoma, asked: Sequence[tuple[str, UUID]], split: str) -> Figures:
    """How often "nothing here answers that" is said: of questions that are answered here, of the same without the
    passage that answers them, which leaves those about the same matter, and of strange ones.
    """
    threshold = getattr(app.provider(Embedder), "unrelated", None)
    known = [(await _evidence(app, question), answer) for question, answer in asked]
    strangers = [
        max((await _evidence(app, question)).values(), default=0.0)
        for language in heldout.LANGUAGES
        for question in heldout.strange(split, language)
    ]
    best = {
        "answered": [max(each.values(), default=0.0) for each, _ in known],
        "answer_removed": [max((by for id, by in each.items() if id != answer), default=0.0) for each, answer in known],
        "strange": strangers,
    }
    told = {name: [each < (threshold or 0.0) for each in found] for name, found in best.items()}
    return {
        "threshold": threshold,
        "least_of_an_answer": round(min(best["answered"]), 3),
        "strange_below_that": share([each < min(best["answered"]) for each in strangers]),
        **{
            name: {"questions": len(found), "told": share(found), "interval": wilson(sum(found), len(found))}
            for name, found in told.items()
        },
    }


async def _evidence(app: Retoma, question: str) -> dict[UUID, float]:
    words = await searches.weighed(app, question)
    found = await searches.candidates(app, question, words, limit=_TOP)
    return {place.document_id: by for place, by in evidence(*found).items()}


def _passages(split: str) -> list[heldout.Text]:
    """One text of each template, in both languages."""
    return [
        text
        for language in heldout.LANGUAGES
        for made in (heldout.news, heldout.documents)
        for text in made(split, language, copies=1)
    ]


async def _fill(app: Retoma, texts: Sequence[str], embedder: Embedder) -> None:
    ids = [UUID(int=place) for place in range(1, len(texts) + 1)]
    vectors = (await embedder.embed(texts, timeout=_TIMEOUT)).vectors
    shelve = rows.shelve(ids)
    async with app.transaction() as connection:
        await connection.execute(shelve.sql, shelve.params)
    for id, text, vector in zip(ids, texts, vectors, strict=True):
        chunk = Chunk(0, text, "texto_geral", None, 1, 1, len(text.split()))
        await app.fetch(contents.put_chunks(id, [chunk], [vector], provider=embedder.provider, model=embedder.model))


def _told(ranks: Sequence[int]) -> Figures:
    first = [rank == 1 for rank in ranks]
    return {
        "hit_at_1": share(first),
        "interval": wilson(sum(first), len(first)),
        "mrr": round(float(np.mean([1 / rank if rank else 0.0 for rank in ranks])), 3),
        "recall_at_10": share([rank > 0 for rank in ranks]),
    }
