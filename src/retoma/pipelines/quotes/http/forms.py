"""What is asked of quotes: a form, as the screens of its users send it, or JSON, as programs do. Both say the same.

A form may bring files, so it is read as it comes in; an Idempotency-Key holds for it all the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import orjson
from fastapi import Request, Response
from pydantic import BaseModel, ValidationError

from retoma.errors import ConfigurationError
from retoma.pipelines.quotes.images import ImageRefused
from retoma.pipelines.quotes.lists import MOST_BYTES, ListRefused
from retoma.web.api.schemas.responses import Fault
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Visit
from retoma.web.http.body import Sent
from retoma.web.http.errors import Refusal, pointer_to
from retoma.web.http.idempotency import changed
from retoma.web.http.multipart import Upload
from retoma.web.http.quotas import paid
from retoma.web.pages.forms import fields_of

FORM, JSON, PLAIN = "multipart/form-data", "application/json", "application/x-www-form-urlencoded"
READS = (
    "not_found",
    "file_missing",
    "multipart_invalid",
    "too_many_fields",
    "too_many_files",
    "payload_too_large",
    "unsupported_media_type",
    "json_too_deep",
    "idempotency_in_progress",
    "idempotency_key_reused",
)
"""Why what is asked may not be read, or not be done twice."""

S = TypeVar("S", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a request says, and the files that it brings. *shown* stands for files that are kept already."""

    said: dict[str, Any]
    files: list[tuple[str, bytes]] = field(default_factory=list)
    shown: str = ""
    exact: bool = False
    """Whether its values have types of their own, as in JSON; those of a form are text."""

    def into(self, shape: type[S]) -> S:
        """The same as *shape*; what does not fit is told field by field."""
        try:
            return shape.model_validate(self.said, strict=self.exact)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            faults = [Fault(pointer=pointer_to(each["loc"]), code=each["type"], detail=each["msg"]) for each in found]
            raise Refusal("validation_failed", faults=faults) from None

    @property
    def digest(self) -> bytes:
        """What two requests have in common that ask for the same: a boundary is another one each time."""
        files = [(name, hashlib.sha256(content).hexdigest()) for name, content in self.files]
        return orjson.dumps([self.said, files, self.shown], option=orjson.OPT_SORT_KEYS)


async def given(request: Request, *, files: int = 0, largest: int = MOST_BYTES) -> Given:
    """What *request* asks, be it a form or JSON, with at most so many *files*. Of one that has more bytes than the
    *largest*, no more is read than shows that.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == FORM:
        return await _uploaded(request, files, largest)
    limits = request.state.retoma.app.settings
    if kind == PLAIN:
        return Given(said=_told(await fields_of(request, largest=limits.web_form_bytes)))
    body = await cast(Sent, request).read(limit=limits.web_body_bytes)
    await paid(request, len(body))
    said = await request.json() if body else {}
    if not isinstance(said, dict):
        fault = Fault(pointer="", code="model_attributes_type", detail="Input should be an object")
        raise Refusal("validation_failed", faults=[fault])
    return Given(said=said, exact=True)


async def _uploaded(request: Request, most: int, largest: int) -> Given:
    upload = Upload(request)
    files: list[tuple[str, bytes]] = []
    async for filename, pieces in upload.files():
        if len(files) >= most:
            raise Refusal("too_many_files", limit=most)
        files.append((_name(filename), await whole(pieces, largest)))
    return Given(said=fields_in(upload), files=files)


def fields_in(upload: Upload) -> dict[str, Any]:
    """What a form says beside its files, once they are read."""
    fields = {name: text.replace("\r\n", "\n") for name, text in upload.fields.items()}
    if any("\0" in text for text in fields.values()):
        raise Refusal("invalid_text", what="U+0000", place="a field")
    return _told(fields)


def _told(fields: dict[str, str]) -> dict[str, Any]:
    """A field that is left empty says nothing."""
    return {name: text for name, text in fields.items() if text.strip()}


def _name(filename: str) -> str:
    return "".join(each for each in filename if each.isprintable())[-200:]


async def whole(pieces: AsyncIterator[bytes], largest: int) -> bytes:
    """A file; of one that is larger than the *largest*, only so much as shows that."""
    found = bytearray()
    async for piece in pieces:
        found += piece
        if len(found) > largest:
            break
    return bytes(found)


def refusal(error: ListRefused | ImageRefused) -> Refusal:
    """Why a list or an image is not taken, with the code that never changes."""
    pointer = "images" if isinstance(error, ImageRefused) else "file"
    fault = Fault(pointer=pointer, code=error.code, detail=error.message)
    return Refusal("validation_failed", said=error.message, next=error.next or "", faults=[fault])


async def made(
    visit: Visit, request: Request, given: Given, make: Callable[[], Awaitable[tuple[int | None, Response]]]
) -> Response:
    """What *make* answers, in one transaction with its row of the audit and with what an Idempotency-Key keeps. It
    gives the id of what came into being, or None when that was there already.
    """

    async def act(record: Recording) -> Response:
        async def handle(_: Sent) -> Response:
            id, response = await make()
            if id is None:
                visit.unchanged = True
            else:
                await record(visit.conn, id)
            return response

        return await changed(visit, cast(Sent, request), given.digest, handle)

    try:
        response = await recorded(visit, act)
    except ListRefused as error:
        raise refusal(error) from None
    except ConfigurationError as error:
        raise Refusal("validation_failed", said=error.message, next=error.next or "") from None
    visit.unchanged |= "idempotency-replayed" in response.headers
    return response
