"""What requests share that are billed by the unit (page, search) and answered with a dataclass."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar, TypeVar

from pydantic import TypeAdapter

from retoma.providers import Answer, Extraction, Offers, Usage
from retoma.providers.request import Request

Found = TypeVar("Found", bound=Extraction | Offers)


@dataclass(frozen=True, kw_only=True)
class UnitRequest(Request[Found]):
    """A request that is billed by the unit: at least one; the number is known with the answer."""

    verb_in_key: ClassVar[bool] = False
    keeps_raw: ClassVar[bool]
    """Whether the value contains the raw answer. The raw answer for a whole document may be larger than a checkpoint
    can be; the call keeps it.
    """

    @property
    @abstractmethod
    def content(self) -> Mapping[str, Any]:
        """What is asked for, without the parameters of the service."""

    @cached_property
    def body(self) -> Mapping[str, Any]:
        """What is asked for, and the parameters of the service that change the result."""
        return {**self.content, "parameters": dict(getattr(self.service, "parameters", {}))}

    @property
    def estimate(self) -> Usage:
        """One unit, unless the service is free."""
        return Usage(units=1 if getattr(self.service, "bills", True) else 0)

    def answer(self, found: Found) -> Answer:
        """The result as it is recorded."""
        # Not with the codec, which may refuse: a paid answer is recorded first, whatever it contains.
        text = json.dumps(asdict(replace(found, raw="", usage=Usage())), default=str)
        return Answer(raw=found.raw or text, text=text, model=self.model, usage=found.usage)

    def read(self, answer: Answer, *, step: str) -> Found:  # noqa: ARG002
        """The result, always decoded from the recorded form."""
        kind: Any = self.answer_type
        found: Found = _adapter(kind).validate_python(json.loads(answer.text))
        raw: Any = answer.raw if self.keeps_raw else None
        return replace(found, raw=raw, usage=answer.usage)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
