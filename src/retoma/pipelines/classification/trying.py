"""One document classified now, without a project and without a trace. It is read in a child process, as always."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from retoma import asking
from retoma.app import Retoma
from retoma.endings import Reject
from retoma.model import Claim
from retoma.pipelines.classification import reading, starting
from retoma.pipelines.classification.handler import Finding, judged
from retoma.pipelines.content import FileRefused, clean_name, kind_of
from retoma.pipelines.files import LARGEST
from retoma.providers import Answer, Chat, Classifier, Extraction, Extractor, ProviderError
from retoma.providers.local.kinds import KINDS
from retoma.scratch import named

_READ_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What was found in a document that nobody keeps."""

    filename: str
    found: Finding
    text_source: str
    text_tokens: int
    tokens: int
    cost: Decimal
    chunk_used: str
    model: str


@dataclass(slots=True)
class _Untold:
    """Asks and remembers nothing but what it cost; stands where a run and its desk would."""

    tokens: int = 0
    cost: Decimal = field(default_factory=Decimal)

    async def call(self, _claim: Claim | None, _step: str, _request: Any, send: Any) -> Answer:
        answer: Answer = await send()
        self.tokens += answer.usage.input_tokens + answer.usage.output_tokens
        self.cost += answer.usage.cost or 0
        return answer

    async def ask(self, name: str, chat: Chat, prompt: Any, /, *, into: Any, timeout: float) -> Any:
        return await asking.ask(
            self,
            None,
            name,
            chat,
            asking.as_prompt(prompt),
            into,
            repairs=2,
            timeout=timeout,
            reuse=False,
            in_doubt="retry",
        )

    async def step(self, _name: str, function: Any, /, *args: Any) -> Any:
        return await function(*args)


async def tried(app: Retoma, filename: str, content: AsyncIterable[bytes], prompt: str, **given: Any) -> Trial:
    """Read and classify *content*; raises FileRefused when the document is at fault."""
    how = starting.frozen(app, prompt, **given)
    name = clean_name(filename)
    with named() as copy:
        size = 0
        async for piece in content:
            size += len(piece)
            if size > LARGEST:
                raise FileRefused(f"{name} is larger than {LARGEST:,} bytes.", code="file_too_large", limit=LARGEST)
            await asyncio.to_thread(copy.write, piece)
        await asyncio.to_thread(copy.flush)
        extraction, kind = await _read(app, Path(copy.name), name)
    text = extraction.text.strip()
    if len(text) < reading.SHORTEST:
        why = f"{name} has {len(text)} characters of text, and {reading.SHORTEST} are needed."
        raise FileRefused(why, code="text_too_short")
    part = reading.cut(text, mode=how["mode"], position=how["position"], tokens=how["chunk_tokens"])
    untold = _Untold()
    chat = app.front.known.get(Chat)
    classifier = app.front.provider(Classifier)  # type: ignore[type-abstract]
    try:
        found = await judged(part, how, untold, classifier=classifier, chat=cast("Chat | None", chat))
    except Reject as refused:
        code, _, why = refused.reason.partition(": ")
        raise FileRefused(why or code, code=code) from refused
    return Trial(
        filename=name,
        found=found,
        text_source=reading.source_of(extraction, kind),
        text_tokens=reading.tokens_of(text),
        tokens=untold.tokens or reading.tokens_of(part),
        cost=untold.cost,
        chunk_used=part[: reading.KEPT],
        model=how["model"],
    )


async def _read(app: Retoma, path: Path, name: str) -> tuple[Extraction, str]:
    with path.open("rb") as file:
        kind = await asyncio.to_thread(kind_of, file, name, KINDS)
    extractor = app.front.provider(Extractor)  # type: ignore[type-abstract]
    try:
        return await extractor.extract(path, kind=kind, timeout=_READ_SECONDS), kind
    except ProviderError as error:
        code = getattr(error, "code", None)
        if code is None:
            raise
        raise FileRefused(error.message.replace(path.name, name), code=code, next=error.next) from error
