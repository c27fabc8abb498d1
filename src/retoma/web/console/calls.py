"""Calls to providers: what was asked when, what it cost, how long it took, and what became of it."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from retoma.model.call import Call
from retoma.model.ids import CallId
from retoma.web.api.schemas import requests
from retoma.web.api.schemas.calls import CallFilter
from retoma.web.console.change import led
from retoma.web.console.figures import machine_page
from retoma.web.http.auth import Here, needs
from retoma.web.http.cursors import cursor_of, opened
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/calls", route_class=PageRoute)

CONTENT = "content:read"
STATES = ("answered", "open", "failed", "doubtful")
_LIMIT = 50


def outcome(call: Call) -> str:
    """What became of the money for a call, in one word of ``states.toml``."""
    if call.state == "answered":
        return "useful" if call.kind == "first" else "again"
    return "lost" if call.state == "failed" else ("waiting" if call.state == "open" else "doubtful")


@router.get("")
@needs("read")
async def list_calls(visit: Here, request: Request) -> Response:
    """Calls, the newest first."""
    said = {name: value for name, value in request.query_params.items() if value.strip()}
    if said.keys() - CallFilter.model_fields.keys() or len(said) < len(request.query_params):
        return led(request, "/console/calls", **{name: said[name] for name in CallFilter.model_fields if name in said})
    return await _page(visit, request, CallFilter.model_validate(said))


async def _page(visit: Here, request: Request, wanted: CallFilter) -> Response:
    found = await visit.app.calls.find(
        job=wanted.job,
        batch=wanted.batch,
        state=wanted.state,
        provider=wanted.provider,
        model=wanted.model,
        before=None if wanted.cursor is None else opened(wanted.cursor),
        limit=_LIMIT + 1,
    )
    page = found[:_LIMIT]
    filters = {name: str(value) for name in FILTERS if (value := getattr(wanted, name)) is not None}
    following = cursor_of(page[-1].id) if len(found) > _LIMIT else None
    return machine_page(
        request,
        "calls.html",
        current="calls",
        calls=page,
        outcome=outcome,
        filters=filters,
        states=STATES,
        following=following,
    )


Flag = Annotated[str, Query(max_length=1)]
FILTERS = ("provider", "model", "state", "batch", "job")


@router.get("/{id:int}")
@needs("read")
async def show_call(id: Annotated[requests.Id, Path()], visit: Here, request: Request, body: Flag = "") -> Response:
    """One call; its request and answer for those who may read content, once they ask for it."""
    call = await visit.app.calls.get(CallId(id))
    content = body == "1" and visit.may(CONTENT)
    return machine_page(
        request,
        "call.html",
        current="calls",
        call=call,
        outcome=outcome(call),
        content=content,
        readable=CONTENT in visit.scopes or "admin" in visit.scopes,
        sent=_indented(call.request) if content else "",
        answer=_indented(call.answer) if content and call.answer else "",
    )


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text
