"""One text: looked for, embedded once, and stored with the sources that waited for it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from retoma.app.fetch import fetch
from retoma.model.endings import Reject, Skip
from retoma.model.retry import Retry
from retoma.pipelines.embeddings import sources, texts
from retoma.pipelines.embeddings.texts import Space
from retoma.providers import Embedder
from retoma.run.pipeline import Pipeline, pipeline
from retoma.run.run import Run

NAME = "embeddings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A content to embed, for whom, and with what."""

    organisation: str
    site: str
    content_hash: str
    content: str
    language: str | None
    provider: str
    model: str

    @property
    def space(self) -> Space:
        """Where its vector may be compared."""
        return Space(self.organisation, self.site, self.provider, self.model)

    @property
    def key(self) -> str:
        """The same for the same content of one site and one model: the key of its one job."""
        five = [self.organisation, self.site, self.content_hash, self.provider, self.model]
        return hashlib.sha256(json.dumps(five, ensure_ascii=False).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """What became of a text: how long its vector is, and how many sources show it from now on."""

    dimensions: int
    switched_on: int
    switched_off: int


def hash_of(content: str) -> str:
    """The name of a content."""
    return hashlib.sha256(content.encode()).hexdigest()


# A line for each organisation: one that adds a million texts does not keep the others waiting.
@pipeline(NAME, internal=True, retry=Retry(attempts=3), lane=lambda text: text.organisation)
async def embeddings(text: Text, run: Run, *, embedder: Embedder) -> Embedded:
    """Embed one text, unless that was done."""
    if (said := hash_of(text.content)) != text.content_hash:
        raise Reject(
            f"input_mismatch: the content of this job has the hash {said[:12]}… and was said to have "
            f"{text.content_hash[:12]}…. Nothing was stored. Add the text anew."
        )
    if (embedder.provider, embedder.model) != (text.provider, text.model):
        raise Reject(
            f"This text was added for {text.provider}/{text.model}, and this worker embeds with "
            f"{embedder.provider}/{embedder.model}. Start a worker with the former and retry the job, or add the text "
            f"again for the latter."
        )
    if await run.transact("look", look, text):
        raise Skip("already embedded")
    (vector,) = await run.embed("embed", embedder, [text.content])
    return await run.transact("store", store, text, vector, run.job, run.correlation_id)


async def look(connection: AsyncConnection[object], text: Text) -> bool:
    """Whether the vector is there; sources that wait for it all the same are switched on."""
    content = (text.organisation, text.site, text.content_hash)
    await fetch(connection, texts.share(text.organisation, text.site))
    if not await fetch(connection, texts.known([content], provider=text.provider, model=text.model)):
        return False
    await _switch(connection, text)
    return True


async def store(
    connection: AsyncConnection[object], text: Text, vector: list[float], job: int, correlation_id: str | None
) -> Embedded:
    """Keep the vector, and let the sources that waited for it take the place of their former versions."""
    new = texts.store(
        text.space,
        content_hash=text.content_hash,
        content=text.content,
        language=text.language,
        vector=vector,
        job_id=job,
        correlation_id=correlation_id,
    )
    await fetch(connection, texts.share(text.organisation, text.site))
    await fetch(connection, new)
    off, on = await _switch(connection, text)
    return Embedded(dimensions=len(vector), switched_on=on, switched_off=off)


async def _switch(connection: AsyncConnection[object], text: Text) -> tuple[int, int]:
    off = await fetch(connection, sources.switch_off(text.space, text.content_hash))
    on = await fetch(connection, sources.switch_on(text.space, text.content_hash))
    return len(off), len(on)


PIPELINES: tuple[Pipeline[Any, Any], ...] = (embeddings,)
