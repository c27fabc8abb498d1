"""What a provider is asked for: a value of a type (mended, when the answer does not fit), vectors, the text of a
document, offers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from retoma.call import Request
from retoma.desk import Errand
from retoma.errors import AnswerUnfit
from retoma.model import Claim
from retoma.providers import (
    Answer,
    Chat,
    Embedder,
    Extraction,
    Extractor,
    Message,
    Offers,
    PriceSearch,
    Prompt,
    Usage,
)
from retoma.providers.later import Pending, Submitter

Found = TypeVar("Found", bound=Extraction | Offers)

_CHARACTERS_PER_TOKEN = 3  # a little few for prose, so that a guess is rather too high
_USUAL_ANSWER = 1000
LOCAL = "local"
"""The provider that is this machine itself."""
_FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)


class Calling(Protocol):
    """Where calls are made: the desk, or a rehearsal's stand-in."""

    async def call(self, claim: Claim | None, step: str, request: Request, send: Any) -> Answer:
        """The answer to *request*."""


class Fetching(Calling, Protocol):
    """Where calls are made whose answers come later, too."""

    async def fetch(self, claim: Claim | None, step: str, request: Request, errand: Errand) -> Answer:
        """The answer to *request*, which is handed in."""


def as_prompt(said: str | Prompt) -> Prompt:
    """What was said, as a prompt."""
    return Prompt(messages=[Message(role="user", content=said)]) if isinstance(said, str) else said


async def ask(
    desk: Calling,
    claim: Claim | None,
    step: str,
    chat: Chat,
    prompt: Prompt,
    into: Any,
    *,
    repairs: int,
    timeout: float,
    reuse: bool,
    in_doubt: str,
) -> Any:
    """What *chat* answers, as a value of *into*. Each try is a call of its own, with its cost."""
    adapter: TypeAdapter[Any] | None = None if into is str else TypeAdapter(into)
    if adapter is not None and prompt.schema is None:
        prompt = replace(prompt, schema=adapter.json_schema())
    kind = "first"
    for left in range(repairs, -1, -1):
        request = _request(chat, prompt, kind=kind, timeout=timeout, reuse=reuse, in_doubt=in_doubt)
        answer = await desk.call(claim, step, request, lambda asked=prompt: chat.chat(asked, timeout=timeout))
        try:
            return _read(answer, adapter, step)
        except AnswerUnfit as error:
            if not left:
                raise
            kind, prompt = "repair", _mending(prompt, answer, error)
    raise AssertionError


async def embed(
    desk: Calling,
    claim: Claim | None,
    step: str,
    embedder: Embedder,
    texts: Sequence[str],
    *,
    timeout: float,
    reuse: bool,
) -> list[list[float]]:
    """One vector per text. What is computed on this machine costs nothing and is not written down."""
    if embedder.provider == LOCAL:
        return [list(each) for each in (await embedder.embed(texts, timeout=timeout)).vectors]
    request = Request(
        provider=embedder.provider,
        model=embedder.model,
        account=getattr(embedder, "account", ""),
        body={"texts": list(texts), "dimensions": embedder.dimensions},
        input_tokens=1 + sum(map(len, texts)) // _CHARACTERS_PER_TOKEN,
        output_tokens=0,
        timeout=timeout,
        reuse=reuse,
    )

    async def send() -> Answer:
        found = await embedder.embed(texts, timeout=timeout)
        raw = orjson.dumps([list(each) for each in found.vectors]).decode()
        return Answer(raw=raw, text="", model=found.model, usage=found.usage, allowance=found.allowance)

    vectors: list[list[float]] = orjson.loads((await desk.call(claim, step, request, send)).raw)
    return vectors


async def extract(
    desk: Fetching,
    claim: Claim,
    step: str,
    extractor: Extractor,
    file: Path,
    *,
    kind: str,
    sha256: str,
    timeout: float,
    reuse: bool,
) -> Extraction:
    """What *file* says; an equal file is known by its *sha256*. The answer as it came stays with the call."""
    request = _of_units(extractor, "extract", {"sha256": sha256, "kind": kind}, timeout=timeout, reuse=reuse)
    if isinstance(extractor, Submitter):
        errand = _errand(extractor, file, kind, request)
        request = replace(request, kept=extractor.kept_seconds)
        return _found_in(await desk.fetch(claim, step, request, errand), Extraction)

    async def send() -> Extraction:
        return await extractor.extract(file, kind=kind, timeout=timeout)

    return await _found(desk, claim, step, request, Extraction, send)


def _errand(extractor: Submitter, file: Path, kind: str, request: Request) -> Errand:
    async def submit() -> str:
        return await extractor.submit(file, kind=kind, timeout=request.timeout)

    async def look(operation: str, seconds: float) -> Answer | Pending:
        found = await extractor.look(operation, timeout=seconds)
        return found if isinstance(found, Pending) else _told(found, request.model)

    return Errand(submit, look)


async def search(
    desk: Calling,
    claim: Claim,
    step: str,
    prices: PriceSearch,
    query: str,
    *,
    limit: int,
    timeout: float,
    reuse: bool,
) -> Offers:
    """Offers for *query*."""
    request = _of_units(prices, "search", {"query": query, "limit": limit}, timeout=timeout, reuse=reuse)

    async def send() -> Offers:
        return await prices.search(query, limit=limit, timeout=timeout)

    return await _found(desk, claim, step, request, Offers, send)


def _of_units(provider: Any, verb: str, body: dict[str, Any], *, timeout: float, reuse: bool) -> Request:
    """A request that is billed by the unit: one at least, and how many is known when it is answered."""
    return Request(
        provider=provider.provider,
        model=getattr(provider, "model", verb),
        account=getattr(provider, "account", ""),
        body={**body, "parameters": dict(getattr(provider, "parameters", {}))},
        input_tokens=0,
        output_tokens=0,
        units=1 if getattr(provider, "bills", True) else 0,
        timeout=timeout,
        reuse=reuse,
    )


async def _found(
    desk: Calling, claim: Claim, step: str, request: Request, kind: type[Found], send: Callable[[], Awaitable[Found]]
) -> Found:
    """What *send* gives, always as it is found again in the store. Work of this machine is not written down."""

    async def told() -> Answer:
        return _told(await send(), request.model)

    return _found_in(await (told() if request.provider == LOCAL else desk.call(claim, step, request, told)), kind)


def _told(found: Extraction | Offers, model: str) -> Answer:
    # Not by the codec, which may refuse: a paid answer is written down first, whatever is in it.
    text = json.dumps(asdict(replace(found, raw="", usage=Usage())), default=str)
    return Answer(raw=found.raw or text, text=text, model=model, usage=found.usage)


def _found_in(answer: Answer, kind: type[Found]) -> Found:
    found = TypeAdapter(kind).validate_python(json.loads(answer.text))
    # What a service says of a whole document may be larger than a checkpoint can be.
    raw: Any = answer.raw if isinstance(found, Offers) else None
    return replace(found, raw=raw, usage=answer.usage)


def _request(chat: Chat, prompt: Prompt, *, kind: str, timeout: float, reuse: bool, in_doubt: str) -> Request:
    said = [{"role": each.role, "content": each.content} for each in prompt.messages]
    return Request(
        provider=chat.provider,
        model=prompt.model or chat.model,
        account=getattr(chat, "account", ""),
        body={
            "messages": said,
            "max_tokens": prompt.max_tokens,
            "temperature": prompt.temperature,
            "schema": prompt.schema,
            "parameters": dict(prompt.parameters),
        },
        input_tokens=1 + sum(len(each.content) for each in prompt.messages) // _CHARACTERS_PER_TOKEN,
        output_tokens=prompt.max_tokens or _USUAL_ANSWER,
        timeout=timeout,
        kind=kind,
        reuse=reuse,
        in_doubt=in_doubt,
    )


def _read(answer: Answer, adapter: TypeAdapter[Any] | None, step: str) -> Any:
    if answer.truncated:
        raise AnswerUnfit(f"The answer to step {step!r} was cut short at its largest length.", raw=answer.text)
    if adapter is None:
        return answer.text
    first: ValidationError | None = None
    for text in _json_in(answer.text):
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            # The first that is JSON at all is what was meant; of the rest only the whole is worth a word.
            if first is None or first.errors()[0]["type"] == "json_invalid":
                first = error
    assert first is not None
    why = first.errors(include_url=False, include_input=False)[0]
    where = "/".join(str(part) for part in why["loc"]) or "the whole"
    raise AnswerUnfit(f"The answer to step {step!r} does not fit: {where}: {why['msg']}.", raw=answer.text)


def _json_in(text: str) -> Iterator[str]:
    """What may be the JSON of an answer: the whole, else what stands in a fence, else what prose is around."""
    yield text.strip()
    for fenced in _FENCED.finditer(text):
        yield fenced[1].strip()
    for opening, closing in ("{}", "[]"):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            yield text[start : end + 1]


def _mending(prompt: Prompt, answer: Answer, error: AnswerUnfit) -> Prompt:
    wish = "Answer again, with JSON alone that fits the schema." if prompt.schema else "Answer again, in full."
    more: Sequence[Message] = (
        Message(role="assistant", content=answer.text),
        Message(role="user", content=f"{error.message} {wish}"),
    )
    # Where nobody set a length the provider did, and only a longer one that is asked for can help.
    before = prompt.max_tokens or max(answer.usage.output_tokens, _USUAL_ANSWER)
    return replace(
        prompt,
        messages=[*prompt.messages, *more],
        max_tokens=2 * before if answer.truncated else prompt.max_tokens,
    )
