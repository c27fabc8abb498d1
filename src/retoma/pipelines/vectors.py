"""Vectors: what the database can do with them, and the same in numpy where it cannot."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeVar

from retoma.app.retoma import Retoma
from retoma.store.query import Query, load

K = TypeVar("K", bound=Hashable)

SQL = load("retoma.pipelines.queries", "vectors.sql")

INDEXED = (512, 1536)
"""The lengths of vectors for which the tables have an HNSW index, where pgvector is."""


class Extension(NamedTuple):
    """pgvector, as the database has it; *indexed* when there are HNSW indexes too."""

    version: str
    indexed: bool

    @property
    def looks_further(self) -> bool:
        """Whether its indexes can go on until enough rows fit a filter: since 0.8."""
        return tuple(int(part) for part in self.version.split(".")[:2] if part.isdecimal()) >= (0, 8)


def extension() -> Query[Extension]:
    return Query(SQL["extension"], Extension)


def look_further() -> Query[str]:
    """Let an HNSW index find as many as were asked for, whatever the filter, for the rest of a transaction.

    Only where ``Extension.looks_further``.
    """
    return Query(SQL["look_further"], str)


async def pgvector(app: Retoma) -> Extension | None:
    """What the database of *app* has of pgvector; None when it has none."""
    found = await app.fetch(extension())
    return found[0] if found else None


def nearest(query: Sequence[float], vectors: Sequence[tuple[K, Sequence[float]]], limit: int) -> list[tuple[K, float]]:
    """The *limit* keys whose vectors lie nearest to *query*, each with the cosine between them, nearest first.

    Exact: every vector is looked at. Equal ones stay in the order in which they came.
    """
    if not vectors or limit < 1:
        return []
    import numpy as np  # noqa: PLC0415 - only where the database cannot

    wanted = np.asarray(query, dtype=np.float64)
    rows = np.asarray([vector for _, vector in vectors], dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(wanted)
    # A vector of nothing but zeros points nowhere: it is near to none.
    scores = np.divide(rows @ wanted, lengths, out=np.zeros(len(rows)), where=lengths > 0)
    first = np.argsort(-scores, kind="stable")[:limit]
    return [(vectors[place][0], float(scores[place])) for place in first]
