"""What an answer depends on, found out without making it: so that whoever asks again and again is told cheaply that
nothing has changed.
"""

from __future__ import annotations

import hashlib
import time
from importlib.metadata import version

from starlette.requests import Request

from retoma.model.batch import Batch, BatchState
from retoma.model.ids import BatchId
from retoma.web.http.auth import Tagged, Visit
from retoma.web.http.errors import Refusal
from retoma.web.words import language_of

LIVE_SECONDS = 2.0
"""How long an answer about a batch that has not ended counts as unchanged while nothing happens to it: in it there are
ages, and jobs that were taken, of which no event tells.
"""
_LONGEST_ID = 18  # digits, which are below what the tables count to
_VERSION = version("retoma")


def tag_of(*parts: object) -> str:
    """A tag for an answer that these determine. Weak, because the same answer may also go out compressed."""
    return f'W/"{hashlib.sha256(repr((_VERSION, *parts)).encode()).hexdigest()[:32]}"'


async def of_batch(visit: Visit, request: Request) -> str | None:
    """The row of the batch that the path names: whatever happens to a batch is told there."""
    batch = await _batch(visit, request)
    return None if batch is None else _tag(visit, request, batch, still=batch.state.ended)


async def of_row(visit: Visit, request: Request) -> str | None:
    """The row alone: its answer has no clock in it."""
    batch = await _batch(visit, request)
    return None if batch is None else row_tag(visit, batch)


def row_tag(visit: Visit, batch: Batch) -> str:
    """The tag of a batch as *visit* may see it."""
    return tag_of("batch", sorted(visit.scopes), batch)


def is_named(request: Request) -> bool:
    """Whether the caller says for which state a change is meant."""
    return "if-match" in request.headers


def refuse_other(request: Request, tag: str) -> None:
    """What was looked at must still be as it was. Tags are weak here only because answers may be compressed."""
    named = {each.strip().removeprefix("W/") for each in request.headers["if-match"].split(",")}
    if "*" not in named and tag.removeprefix("W/") not in named:
        raise Refusal("precondition_failed")


async def of_explanation(visit: Visit, request: Request) -> str | None:
    """The same; but what can be done about one that failed depends also on who is there to do it."""
    batch = await _batch(visit, request)
    done = (BatchState.COMPLETED, BatchState.CANCELLED)
    return None if batch is None else _tag(visit, request, batch, still=batch.state in done)


def of_batch_in(pipeline: str) -> Tagged:
    """The same as ``of_batch``, for routes that know only batches of *pipeline*."""

    async def found(visit: Visit, request: Request) -> str | None:
        batch = await _batch(visit, request)
        if batch is None or batch.pipeline != pipeline:
            return None
        return _tag(visit, request, batch, still=batch.state.ended)

    return found


async def _batch(visit: Visit, request: Request) -> Batch | None:
    id = request.path_params["id"]
    if not (id.isascii() and id.isdecimal() and len(id) <= _LONGEST_ID):
        return None  # the route says what is wrong with it
    batch = await visit.app.batches.get(BatchId(int(id)))
    visit.see(batch.pipeline, f"batch {id}")
    visit.known = batch
    return batch


def _tag(visit: Visit, request: Request, batch: Batch, *, still: bool) -> str:
    moment = None if still else time.time() // LIVE_SECONDS
    language = language_of(request.headers.get("accept-language", ""))
    return tag_of(request.url.path, sorted(visit.scopes), language, batch, moment)
