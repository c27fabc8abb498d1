"""Ask for vectors of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import orjson

from retoma.providers import Answer, Embedder, Usage
from retoma.providers.request import Request
from retoma.providers.requests.ask import CHARACTERS_PER_TOKEN

Rows = list[list[float]]


@dataclass(frozen=True, kw_only=True)
class Embed(Request[Rows]):
    """One vector per text."""

    verb: ClassVar[str] = "embed"
    verb_in_key: ClassVar[bool] = False

    embedder: Embedder
    texts: Sequence[str]

    @property
    def service(self) -> Embedder:
        """The embedder."""
        return self.embedder

    @property
    def answer_type(self) -> type[Rows]:
        """Rows of numbers."""
        return Rows

    @cached_property
    def body(self) -> Mapping[str, Any]:
        """The texts, and the number of dimensions."""
        return {"texts": list(self.texts), "dimensions": self.embedder.dimensions}

    @cached_property
    def estimate(self) -> Usage:
        """The tokens of the texts, estimated from their length."""
        return Usage(input_tokens=1 + sum(map(len, self.texts)) // CHARACTERS_PER_TOKEN)

    async def send(self) -> Answer:
        """The vectors, as JSON."""
        found = await self.embedder.embed(self.texts, timeout=self.timeout)
        raw = orjson.dumps([list(each) for each in found.vectors]).decode()
        return Answer(raw=raw, text="", model=found.model, usage=found.usage, allowance=found.allowance)

    def read(self, answer: Answer, *, step: str) -> Rows:  # noqa: ARG002
        """The vectors, from their JSON."""
        return cast(Rows, orjson.loads(answer.raw))

    async def compute(self) -> Rows:
        """The vectors, without JSON in between."""
        return [list(each) for each in (await self.embedder.embed(self.texts, timeout=self.timeout)).vectors]
