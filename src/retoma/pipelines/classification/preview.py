"""One document classified now, without a project. Nothing of it is kept but the calls to a model. It is read in a child
process, as always.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from retoma.app.retoma import Retoma
from retoma.model.endings import Reject
from retoma.pipelines.classification import excerpt, execution
from retoma.pipelines.classification.pipeline import Finding, judged
from retoma.pipelines.files.content import FileRefused, clean_name, kind_of
from retoma.pipelines.files.ingest import LARGEST
from retoma.providers import Answer, Chat, Classifier, Extraction, Extractor, Prompt, ProviderError, Usage
from retoma.providers.local.kinds import KINDS
from retoma.system.tempfiles import named
from retoma.values.escaping import spoken

_READ_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What was found in a document that nobody keeps."""

    filename: str
    found: Finding
    text_source: str
    text_tokens: int
    tokens: int
    cost: Decimal | None
    """None when nobody knows."""
    chunk_used: str
    model: str


class _Heard:
    """A model, and what was used of it."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self.provider, self.model, self.account = chat.provider, chat.model, getattr(chat, "account", "")
        self.usages: list[tuple[Usage, str]] = []

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:
        answer = await self._chat.chat(prompt, timeout=timeout)
        self.usages.append((answer.usage, answer.model))
        return answer


class _Outside:
    """Stands where a run would. No step is kept; what a model is asked is written down, limited and paid as always."""

    def __init__(self, app: Retoma) -> None:
        self._app = app
        self.tokens = 0
        self.cost: Decimal | None = Decimal(0)

    async def ask(self, name: str, chat: Chat, prompt: Prompt, /, *, into: Any, timeout: float) -> Any:
        heard = _Heard(chat)
        said = await self._app.ask(f"{name}/trial", heard, prompt, into=into, timeout=timeout, reuse=False)
        asked = (chat.provider, prompt.model or chat.model)
        tariff = await self._app.calls.tariff(*asked)
        for usage, model in heard.usages:
            self.tokens += usage.input_tokens + usage.output_tokens
            cost = tariff.cost(usage, model=model).amount
            self.cost = None if self.cost is None or cost is None else self.cost + cost
        return said

    async def step(self, _name: str, function: Any, /, *args: Any) -> Any:
        return await function(*args)


async def tried(app: Retoma, filename: str, content: AsyncIterable[bytes], prompt: str, **given: Any) -> Trial:
    """Read and classify *content*; raises FileRefused when the document is at fault."""
    how = execution.frozen(app, prompt, **given)
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
    text, hidden = spoken(extraction.text.strip())
    if len(text) < excerpt.SHORTEST:
        why = f"{name} has {len(text)} characters of text, and {excerpt.SHORTEST} are needed."
        raise FileRefused(why, code="text_too_short")
    part = excerpt.cut(text, mode=how["mode"], position=how["position"], tokens=how["chunk_tokens"])
    outside = _Outside(app)
    chat = app.provider(Chat) if app.provides(Chat) else None
    classifier = app.provider(Classifier)
    try:
        found = await judged(part, how, outside, hidden=hidden, classifier=classifier, chat=chat)
    except Reject as refused:
        code, _, why = refused.reason.partition(": ")
        raise FileRefused(why or code, code=code) from refused
    return Trial(
        filename=name,
        found=found,
        text_source=excerpt.source_of(extraction, kind),
        text_tokens=excerpt.tokens_of(text),
        tokens=outside.tokens or excerpt.tokens_of(part),
        cost=outside.cost,
        chunk_used=part[: excerpt.KEPT],
        model=how["model"],
    )


async def _read(app: Retoma, path: Path, name: str) -> tuple[Extraction, str]:
    with path.open("rb") as file:
        kind = await asyncio.to_thread(kind_of, file, name, KINDS)
    extractor = app.provider(Extractor)
    try:
        return await extractor.extract(path, kind=kind, timeout=_READ_SECONDS), kind
    except ProviderError as error:
        code = getattr(error, "code", None)
        if code is None:
            raise
        raise FileRefused(error.message.replace(path.name, name), code=code, next=error.next) from error
