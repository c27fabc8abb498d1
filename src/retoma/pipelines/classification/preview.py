"""One document classified now, without a project. Nothing of it is kept but the calls to a model. It is read in a child
process, as always.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from retoma.app import Retoma
from retoma.endings import Reject
from retoma.pipelines.classification import reading, starting
from retoma.pipelines.classification.handler import Finding, judged
from retoma.pipelines.content import FileRefused, clean_name, kind_of
from retoma.pipelines.files import LARGEST
from retoma.pricing import cost
from retoma.providers import Answer, Chat, Classifier, Extraction, Extractor, Prompt, ProviderError, Usage
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


class _Heard:
    """A model, and what was used of it."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self.provider, self.model, self.account = chat.provider, chat.model, getattr(chat, "account", "")
        self.usages: list[Usage] = []

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:
        answer = await self._chat.chat(prompt, timeout=timeout)
        self.usages.append(answer.usage)
        return answer


class _Outside:
    """Stands where a run would. No step is kept; what a model is asked is written down, limited and paid as always."""

    def __init__(self, app: Retoma) -> None:
        self._app = app
        self.tokens = 0
        self.cost = Decimal(0)

    async def ask(self, name: str, chat: Chat, prompt: Prompt, /, *, into: Any, timeout: float) -> Any:
        heard = _Heard(chat)
        said = await self._app.ask(f"{name}/trial", heard, prompt, into=into, timeout=timeout, reuse=False)
        known = {(each.provider, each.model): each for each in await self._app.prices()}
        for usage in heard.usages:
            self.tokens += usage.input_tokens + usage.output_tokens
            self.cost += cost(usage, known.get((chat.provider, prompt.model or chat.model)))
        return said

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
    outside = _Outside(app)
    chat = app.front.known.get(Chat)
    classifier = app.front.provider(Classifier)  # type: ignore[type-abstract]
    try:
        found = await judged(part, how, outside, classifier=classifier, chat=cast("Chat | None", chat))
    except Reject as refused:
        code, _, why = refused.reason.partition(": ")
        raise FileRefused(why or code, code=code) from refused
    return Trial(
        filename=name,
        found=found,
        text_source=reading.source_of(extraction, kind),
        text_tokens=reading.tokens_of(text),
        tokens=outside.tokens or reading.tokens_of(part),
        cost=outside.cost,
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
