"""Operations: every action on many jobs, who asked, how far it is; and a new one, counted before it begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Path, Query, Request, Response

from retoma.errors import ConfigurationError
from retoma.model.job import JobState
from retoma.model.operation import ACTIONS, ALLOWED, JobFilter
from retoma.web.api.schemas import requests
from retoma.web.console.change import led
from retoma.web.console.filters import fields_in, filter_of, in_words, query_of
from retoma.web.console.render import console_page
from retoma.web.console.speaking import changed, problem_of, speaker
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.errors import Refusal
from retoma.web.pages.forms import fields_of
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

PATH = "operations"
_PAGE = 25
_LARGEST_FORM = 40_000
Told = Annotated[str, Query(pattern="^(|begun|cancelled)$")]


@router.get("/operations")
@needs("read")
async def list_operations(
    visit: Here, request: Request, before: Annotated[int | None, Query(ge=1, lt=2**63)] = None, told: Told = ""
) -> Response:
    """Every action on many jobs, the newest first."""
    found = await visit.app.jobs.operations(before=before, limit=_PAGE + 1)
    say = speaker(request)
    return console_page(
        request,
        "operations.html",
        current=PATH,
        operations=found[:_PAGE],
        moving=any(not each.finished for each in found[:_PAGE]),
        more=found[_PAGE - 1].id if len(found) > _PAGE else None,
        before=before,
        told=told,
        words_of=lambda which: in_words(which, say),
    )


@router.get("/operations/new")
@needs("operate", limited=True)
async def count_operation(visit: Here, request: Request) -> Response:
    """What an action on many jobs would do, before it is begun."""
    return await _asked(visit, request, fields_in(request.query_params))


@router.post("/operations")
@needs("operate", limited=True, streamed=True, records=True)
async def begin_operation(visit: Here, request: Request) -> Response:
    """Begin an action on many jobs."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    try:
        action, which, how = _read(said, visit)
        visit.noted.update(kind=action, filter=orjson.loads(which.text), **how)
        await changed(
            visit,
            lambda conn: visit.app.jobs.operate(action, which, by=visit.caller, conn=conn, **how),
            made=lambda begun: begun.id,
        )
    except (ConfigurationError, Refusal) as error:
        visit.unchanged = True
        return await _asked(visit, request, said, problem=problem_of(request, error))
    return led(request, "/console/operations", told="begun")


@router.post("/operations/{id}/cancel")
@needs("operate")
async def cancel_operation(id: Annotated[requests.Id, Path()], visit: Here, request: Request) -> Response:
    """End an operation early."""
    await visit.app.jobs.cancel_operation(id, conn=visit.conn)
    return led(request, "/console/operations", told="cancelled")


def _read(said: Mapping[str, str], visit: Visit) -> tuple[str, JobFilter, dict[str, Any]]:
    action = said.get("action", "retry")
    how: dict[str, Any] = {}
    if action == "move" and said.get("to", "").strip():
        how["queue"] = said["to"].strip()
    if action == "priority" and said.get("value", "").strip():
        how["priority"] = _whole(said["value"].strip())
    if action in ("cancel", "discard") and said.get("reason", "").strip():
        how["reason"] = said["reason"].strip()[:200]
    return action, filter_of(said, visit), how


def _whole(text: str) -> int:
    if not text.lstrip("-").isdecimal():
        raise ConfigurationError(f"{text[:40]!r} is not a whole number.", next="Use digits alone.")
    return int(text[:8])


async def _asked(visit: Visit, request: Request, said: Mapping[str, str], *, problem: Any = None) -> Response:
    """The page that counts: what is asked as a form, and what it would do."""
    plan, which, say = None, None, speaker(request)
    if problem is None and said.get("action"):
        try:
            action, which, how = _read(said, visit)
            plan = await visit.app.jobs.dry_run(action, which, **how)
        except (ConfigurationError, Refusal) as error:
            problem = problem_of(request, error)
    return console_page(
        request,
        "operation_new.html",
        current=PATH,
        status=200 if problem is None else problem.status,
        said=dict(said),
        plan=plan,
        words_of_filter=in_words(plan.filter, say) if plan else [],
        fields=query_of(plan.filter) if plan else {},
        actions=tuple(ACTIONS),
        states=tuple(each for each in JobState if each in ALLOWED.get(said.get("action", "retry"), JobState)),
        problem=problem,
    )
