"""Ask a model for a value of a type. An answer that does not fit is sent back with what is wrong with it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from retoma.errors import AnswerUnfit
from retoma.providers import Answer, Chat, Message, Prompt, Usage
from retoma.providers.request import Request

T = TypeVar("T")

CHARACTERS_PER_TOKEN = 3  # low for prose, so that an estimate is rather too high
TOKENS_PER_PICTURE = 5_000  # more than services count for the largest one, which they make smaller
_USUAL_ANSWER = 1000
_FENCE = "```"


@dataclass(frozen=True, kw_only=True)
class Ask(Request[T]):
    """The answer of a model as a value of *into*. Each repair is a request of its own, with its cost."""

    verb: ClassVar[str] = "ask"
    verb_in_key: ClassVar[bool] = False

    chat: Chat
    prompt: str | Prompt
    into: type[T] = str  # type: ignore[assignment]
    repairs: int = 2

    @property
    def service(self) -> Chat:
        """The model's provider."""
        return self.chat

    @property
    def model(self) -> str:
        """The model that the prompt names, else the provider's own."""
        return self._asked.model or self.chat.model

    @property
    def answer_type(self) -> type[T]:
        """The type of the answer."""
        return self.into

    @property
    def recorded(self) -> bool:
        """Always: people want to see what a model was asked, even when it runs on this machine."""
        return True

    @cached_property
    def body(self) -> Mapping[str, Any]:
        """The conversation, the schema, and everything else that changes the answer."""
        prompt = self._asked
        return {
            "messages": [_said(each) for each in prompt.messages],
            "max_tokens": prompt.max_tokens,
            "temperature": prompt.temperature,
            "schema": prompt.schema,
            "parameters": dict(prompt.parameters),
        }

    @cached_property
    def estimate(self) -> Usage:
        """The tokens of the prompt, by its length and its pictures, and those of the longest answer."""
        messages = self._asked.messages
        pictures = sum(len(each.pictures) for each in messages)
        words = sum(len(each.content) for each in messages) // CHARACTERS_PER_TOKEN
        return Usage(
            input_tokens=1 + words + pictures * TOKENS_PER_PICTURE,
            output_tokens=self._asked.max_tokens or _USUAL_ANSWER,
        )

    async def send(self) -> Answer:
        """What the model says."""
        return await self.chat.chat(self._asked, timeout=self.timeout)

    def read(self, answer: Answer, *, step: str) -> T:
        """The value of *into* in the answer."""
        if answer.truncated:
            raise AnswerUnfit(f"The answer to step {step!r} was cut short at its largest length.", raw=answer.text)
        if self._adapter is None:
            return cast(T, answer.text)
        first: ValidationError | None = None
        for text in json_in(answer.text):
            try:
                return self._adapter.validate_json(text)
            except ValidationError as error:
                # The first candidate that is JSON at all is the intended one; otherwise report the
                # error of the whole text.
                if first is None or first.errors()[0]["type"] == "json_invalid":
                    first = error
        assert first is not None
        why = first.errors(include_url=False, include_input=False)[0]
        where = "/".join(str(part) for part in why["loc"]) or "the whole"
        raise AnswerUnfit(f"The answer to step {step!r} does not fit: {where}: {why['msg']}.", raw=answer.text)

    def repaired(self, answer: Answer, error: AnswerUnfit) -> Ask[T] | None:
        """The same conversation, with the answer and what is wrong with it; None when no repair is left."""
        if self.repairs < 1:
            return None
        prompt = self._asked
        wish = "Answer again, with JSON alone that fits the schema." if prompt.schema else "Answer again, in full."
        more: Sequence[Message] = (
            Message(role="assistant", content=answer.text),
            Message(role="user", content=f"{error.message} {wish}"),
        )
        # Without a limit of ours the provider applied its own, and only an explicit longer one can help.
        before = prompt.max_tokens or max(answer.usage.output_tokens, _USUAL_ANSWER)
        prompt = replace(
            prompt,
            messages=[*prompt.messages, *more],
            max_tokens=2 * before if answer.truncated else prompt.max_tokens,
        )
        return replace(self, prompt=prompt, repairs=self.repairs - 1)

    @cached_property
    def _asked(self) -> Prompt:
        prompt = self.prompt
        if isinstance(prompt, str):
            prompt = Prompt(messages=[Message(role="user", content=prompt)])
        if self._adapter is not None and prompt.schema is None:
            prompt = replace(prompt, schema=self._adapter.json_schema())
        return prompt

    @cached_property
    def _adapter(self) -> TypeAdapter[T] | None:
        return None if self.into is str else _adapter_of(self.into)


def _adapter_of(kind: type[T]) -> TypeAdapter[T]:
    """To make one costs more than a request does otherwise: it is made once for each type."""
    try:
        return cast(TypeAdapter[T], _made(cast(Hashable, kind)))
    except TypeError:  # a type that cannot be a key
        return TypeAdapter(kind)


@lru_cache(maxsize=256)
def _made(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _said(message: Message) -> dict[str, Any]:
    """A turn as it is recorded: a picture by its hash, for its bytes are kept elsewhere."""
    said: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.pictures:  # words alone have the keys that they always had
        said["pictures"] = [{"kind": each.kind, "sha256": each.sha256} for each in message.pictures]
    return said


def json_in(text: str) -> Iterator[str]:
    """The candidates for the JSON of an answer: the whole, else what is in a code fence, else what prose surrounds."""
    yield text.strip()
    for fenced in text.split(_FENCE)[1:-1:2]:
        yield fenced.removeprefix("json").strip()
    for opening, closing in ("{}", "[]"):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            yield text[start : end + 1]
