"""What ``retoma doctor`` says of vectors."""

from __future__ import annotations

from retoma.app.doctor.findings import Finding, amber, green
from retoma.app.retoma import Retoma
from retoma.pipelines import vectors
from retoma.values.phrase import Phrase


async def check(app: Retoma) -> list[Finding]:
    """Whether the database searches vectors by an index."""
    return [_vectors(await vectors.pgvector(app))]


def _vectors(extension: vectors.Extension | None) -> Finding:
    if extension is None:
        return amber("vectors", "exact search in numpy; fine up to ~50,000 chunks", "create extension vector")
    version = ".".join(extension.version.split(".")[:2])
    if not extension.indexed:
        return amber(
            "vectors",
            Phrase("pgvector {version} without its HNSW indexes: the tables were made before it", version=version),
            "create them as docs/pipelines/embeddings.md has it.",
        )
    return green("vectors", Phrase("pgvector {version} with HNSW", version=version))
