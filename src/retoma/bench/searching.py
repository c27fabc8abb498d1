"""The figures of search: chunks by meaning and by words, among many, with the index of the database and without."""

from __future__ import annotations

import re
import statistics
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from itertools import accumulate
from random import Random
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from retoma.bench import figures
from retoma.bench.evaluation import labelled
from retoma.bench.pipelines import House, house
from retoma.demo.samples import invent
from retoma.pipelines.documents import search
from retoma.pipelines.documents.library import Documents
from retoma.pipelines.documents.search_queries import Place
from retoma.pipelines.vectors import INDEXED, pgvector
from retoma.providers import Embedder

Figures = dict[str, Any]
T = TypeVar("T")

_TOPICS = 200
_OWN_WORDS = 40  # of one topic, beside the words that all of them share
_WORDS = 80  # in one chunk
_CHUNKS_EACH = 50  # in one document
# As invented papers of one kind lie about their middle: 1.4 times as far as it is long, in some 64 directions of 512.
# In all directions alike they would all be equally far from each other, which no index tells apart, and no text does.
_AWAY, _DIRECTIONS = 1.4, 64
_CANDIDATES = 30  # as many as a search for ten pieces looks at
_TOP = 10
_TIMEOUT = 600.0
_NEAR, _BY_WORDS = "retoma.document_chunks_near", "retoma.document_chunks_words"
_COLUMNS = "document_id, place, content, section_type, page_start, page_end, token_count, provider, model, dimensions"


class Shelf:
    """Chunks that were never read from a file: each is of a topic, by its words and by its vector."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        chance = Random("shelf")  # noqa: S311 - invented papers need no secrecy
        self.vocabulary = _vocabulary(chance)
        # The word of rank r is met 1/r times as often as the first, as in every language.
        self.weights = list(accumulate(1 / rank for rank in range(1, len(self.vocabulary) + 1)))
        self.topics = [chance.sample(self.vocabulary[100:], _OWN_WORDS) for _ in range(_TOPICS)]
        self.vectors: Any = None

    async def fill(self, here: House, chunks: int) -> None:
        """Put *chunks* of them into the table."""
        import numpy as np  # noqa: PLC0415 - only who searches needs it

        texts = [" ".join(words) for words in self.topics]
        middles = np.array((await self.embedder.embed(texts, timeout=_TIMEOUT)).vectors, dtype=np.float32)
        chance = np.random.default_rng(self.embedder.dimensions)
        ways = chance.standard_normal((_DIRECTIONS, self.embedder.dimensions), dtype=np.float32)
        drawn = chance.standard_normal((chunks, _DIRECTIONS), dtype=np.float32) @ ways
        drawn *= _AWAY / np.linalg.norm(drawn, axis=1, keepdims=True)
        drawn += middles[np.arange(chunks) % _TOPICS]
        self.vectors = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        ids = [UUID(int=number + 1) for number in range(-(-chunks // _CHUNKS_EACH))]
        async with here.app.database.connection() as connection:
            await connection.execute("set statement_timeout = 0")
            shelve = figures.shelve(ids)
            await connection.execute(shelve.sql, shelve.params)
            into = f"copy retoma.document_chunks ({_COLUMNS}, vector) from stdin (format binary)"
            async with connection.cursor() as cursor, cursor.copy(into) as copy:
                await copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
                for row in self._rows(ids):
                    await copy.write(row)
                await copy.write(struct.pack(">h", -1))
            await connection.execute("analyze retoma.document_chunks")

    def _rows(self, ids: Sequence[UUID]) -> Iterator[bytes]:
        """Rows as a binary copy has them: 50 million numbers as text would take longer than the index."""
        import numpy as np  # noqa: PLC0415 - as above

        dimensions = self.embedder.dimensions
        told = [each.encode() for each in (self.embedder.provider, self.embedder.model)]
        head = struct.pack(">iiiii", 1, 0, 700, dimensions, 1)  # one dimension, no nulls, of float4, from 1 on
        packed = np.empty(dimensions, dtype=[("length", ">i4"), ("number", ">f4")])
        packed["length"] = 4
        for number, vector in enumerate(self.vectors):
            packed["number"] = vector
            document, place = divmod(number, _CHUNKS_EACH)
            page = struct.pack(">i", 1 + place // 2)
            text = self._text(number).encode()
            fields = [ids[document].bytes, struct.pack(">i", place), text, b"texto_geral", page, page]
            fields += [struct.pack(">i", _WORDS), *told, struct.pack(">i", dimensions), head + packed.tobytes()]
            yield struct.pack(">h", len(fields)) + b"".join(struct.pack(">i", len(each)) + each for each in fields)

    def _text(self, number: int) -> str:
        chance = Random(number)  # noqa: S311 - as above
        words = chance.choices(self.vocabulary, cum_weights=self.weights, k=_WORDS)
        words[::4] = chance.choices(self.topics[number % _TOPICS], k=len(words[::4]))
        return " ".join(words)

    def questions(self, number: int) -> list[str]:
        """A few words of a topic each, as people ask."""
        chance = Random("questions")  # noqa: S311 - as above
        return [" ".join(chance.sample(chance.choice(self.topics), chance.randint(2, 4))) for _ in range(number)]

    def exact(self, vector: Sequence[float]) -> list[Place]:
        """The ten nearest, by looking at all."""
        import numpy as np  # noqa: PLC0415 - as above

        scores = self.vectors @ np.asarray(vector, dtype=np.float32)
        best = np.argpartition(-scores, _TOP)[:_TOP]
        return [Place(UUID(int=int(each) // _CHUNKS_EACH + 1), int(each) % _CHUNKS_EACH) for each in best]


def _vocabulary(chance: Random) -> list[str]:
    """Portuguese words, the most frequent first; a few thousand are made of their beginnings and endings."""
    texts = [invent(chance, kind, "pt") for kind in labelled.kinds() for _ in range(20)]
    texts += [each.text for each in labelled.documents()]
    found = Counter(re.findall(r"[a-zà-ú]{2,}", " ".join(texts).lower()))
    words = sorted(found, key=lambda word: (-found[word], word))
    long = [word for word in words if len(word) > 6]  # noqa: PLR2004 - so that both halves say something
    made = {chance.choice(long)[:4] + chance.choice(long)[-4:] for _ in range(6_000)}
    return words + sorted(made - found.keys())


async def by_index(chunks: int, *, asked: int) -> Figures:
    """Searches for ten pieces as the API does them; the index is built when all chunks are there."""
    async with house() as here:
        shelf = Shelf(here.app.provider(Embedder))
        if shelf.embedder.dimensions != INDEXED[0]:
            raise RuntimeError(f"The index is for vectors of {INDEXED[0]}, and these have {shelf.embedder.dimensions}.")
        async with await psycopg.AsyncConnection.connect(here.app.database.url, autocommit=True) as connection:
            built = {name: await _dropped(connection, name) for name in (_BY_WORDS, _NEAR)}
            await shelf.fill(here, chunks)
            await connection.execute("set maintenance_work_mem = '1GB'")
            seconds = {name: await _seconds(connection, made) for name, made in built.items()}
            await connection.execute("vacuum analyze retoma.document_chunks")
        found = {
            "chunks": chunks,
            "dimensions": shelf.embedder.dimensions,
            "index_seconds": seconds[_NEAR],
            "index_megabytes": round((await here.app.fetch(figures.index_bytes(_NEAR)))[0] / 1e6, 1),
            "index_of_words_seconds": seconds[_BY_WORDS],
        }
        return {**found, **await _searched(here, shelf, asked)}


async def _dropped(connection: psycopg.AsyncConnection[Any], index: str) -> str:
    """How *index* is made again; it goes, for many rows at once come in quicker without it."""
    told = figures.index_definition(index)
    row = await (await connection.execute(told.sql, told.params)).fetchone()
    assert row is not None
    await connection.execute(f"drop index {index}")
    return str(row[0])


async def _seconds(connection: psycopg.AsyncConnection[Any], statement: str) -> float:
    began = time.perf_counter()
    await connection.execute(statement)
    return round(time.perf_counter() - began, 1)


async def _searched(here: House, shelf: Shelf, asked: int) -> Figures:
    documents, embedder = Documents(here.app), shelf.embedder
    questions = shelf.questions(asked + 5)
    for question in questions[:5]:  # the model is loaded once per process, statements are prepared once per connection
        await documents.search(question)
    whole = [await _timed(documents.search(question)) for question in questions[5:]]
    nearest, hits = [], 0
    extension = await pgvector(here.app)
    assert extension is not None
    for question in questions[5:]:
        (vector,) = (await embedder.embed([question], timeout=_TIMEOUT)).vectors
        took, places = await _timed(search.by_index(here.app, vector, embedder, _CANDIDATES, extension))
        nearest.append((took, places))
        hits += len({each[:2] for each in places[:_TOP]} & {*shelf.exact(vector)})
    return {
        "searches": asked,
        **_spread(took for took, _ in whole),
        "pieces_found_each": round(sum(len(found) for _, found in whole) / asked, 1),
        "by_meaning_alone_p95_ms": _spread(took for took, _ in nearest)["p95_ms"],
        "recall_at_10": round(hits / (_TOP * asked), 4),
    }


async def one_by_one(chunks: int, *, asked: int) -> Figures:
    """The nearest by meaning where the database has no pgvector: every vector is fetched and compared here."""
    async with house() as here:
        shelf = Shelf(here.app.provider(Embedder))
        await shelf.fill(here, chunks)
        vectors = (await shelf.embedder.embed(shelf.questions(asked), timeout=_TIMEOUT)).vectors
        waits, hits = [], 0
        for vector in vectors:
            took, places = await _timed(search.one_by_one(here.app, vector, shelf.embedder, _CANDIDATES))
            waits.append(took)
            hits += len({each[:2] for each in places[:_TOP]} & {*shelf.exact(vector)})
    return {
        "chunks": chunks,
        "dimensions": shelf.embedder.dimensions,
        "searches": asked,
        **_spread(waits),
        "recall_at_10": round(hits / (_TOP * asked), 4),
    }


async def _timed(asked: Awaitable[T]) -> tuple[float, T]:
    began = time.perf_counter()
    found = await asked
    return 1000 * (time.perf_counter() - began), found


def _spread(waits: Any) -> Figures:
    ordered = sorted(waits)
    return {
        "p50_ms": round(statistics.median(ordered), 1),
        "p95_ms": round(ordered[int(len(ordered) * 0.95)], 1),
    }
