"""What people do to a batch: every change is a form, and what is large or final is shown before it is done."""

from __future__ import annotations

import contextlib
import re
from decimal import Decimal
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from retoma.commands.options import Changing
from retoma.errors import Conflict, NotFound
from retoma.model.batch import Plan
from retoma.model.ids import JobId
from retoma.web.api.batches import Found
from retoma.web.console.batch_view import acts_of
from retoma.web.console.change import led
from retoma.web.console.render import console_page
from retoma.web.console.speaking import spanner, speaker
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, needs
from retoma.web.http.errors import Refusal
from retoma.web.pages.forms import fields_of
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/batches/{id}", route_class=PageRoute)

_LARGEST_FORM = 20_000
_MOST_RESUMES = 1000


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None  # noqa: PLR2004


def _money(text: str) -> Decimal | None:
    """An amount as people write it; nothing is no limit."""
    plain = text.strip().replace(",", ".")
    if not plain:
        return None
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", plain):
        raise Refusal(
            "validation_failed", said=f"A budget is an amount of US dollars, such as 12.50, not {text[:40]!r}."
        )
    return Decimal(plain)


@router.get("/resume")
@needs("read", limited=True)
async def show_plan(batch: Found, visit: Here, request: Request) -> Response:
    """What a resume would skip, continue and begin, what that saves and what it needs."""
    plan = await visit.app.batches.plan(batch.id)
    now = await visit.app.batches.progress(batch.id)
    resume = acts_of(batch, now, speaker(request), may=visit.may("operate"))[0]
    used_up = not plan.can and not resume.why
    return console_page(
        request,
        "batch_plan.html",
        current="batches",
        batch=batch,
        plan=plan,
        sets=_sets(plan),
        total=now.total,
        resume=resume,
        used_up=used_up,
        more=batch.resumes + 1,
        span=spanner(request),
    )


def _sets(plan: Plan) -> list[tuple[str, str, int]]:
    """The parts of the plan: the set of jobs, its tone, and how many they are."""
    return [
        ("skips", "good", plan.skips),
        ("continues", "busy", plan.continues),
        ("begins", "warn", plan.begins),
        ("left", "bad", plan.leaves_failed + plan.quarantined),
    ]


@router.post("/resume")
@needs("operate", limited=True)
async def resume_batch(
    batch: Found,
    visit: Here,
    request: Request,
    epoch: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    max_resumes: Annotated[int | None, Query(ge=0, le=_MOST_RESUMES)] = None,
) -> Response:
    """Continue where it stopped, if it is still as it was when the plan was shown."""
    done = await visit.app.batches.resume(
        batch.id, epoch=epoch, max_resumes=max_resumes, by=visit.caller, conn=visit.conn
    )
    return led(request, f"/console/batches/{batch.id}", said=done.word)


@router.post("/retry")
@needs("operate", limited=True)
async def retry_batch(
    batch: Found, visit: Here, request: Request, group: Annotated[str, Query(pattern="^([0-9a-f]{12})?$")] = ""
) -> Response:
    """Try the failed jobs again, or those of one error group; finished steps are not done again."""
    done = await visit.app.batches.retry_failed(
        batch.id, fingerprint=group or None, by=visit.caller, wait=False, conn=visit.conn
    )
    return led(request, f"/console/batches/{batch.id}", said=done.word, tab="errors" if group else "")


@router.post("/retry-ticked")
@needs("operate", limited=True, streamed=True, records=True)
async def retry_jobs(batch: Found, visit: Here, request: Request) -> Response:
    """Try the ticked jobs again; those that run, wait or are done are left as they are."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    ticked = [int(name[4:]) for name in said if name.startswith("job-") and _whole(name[4:]) is not None]

    async def act(record: Recording) -> int:
        tried = []
        async with visit.app.transaction() as conn:
            for id in ticked:
                with contextlib.suppress(Conflict, NotFound):
                    if (await visit.app.jobs.get(JobId(id), conn=conn)).batch_id == batch.id:
                        tried.append((await visit.app.jobs.retry(JobId(id), conn=conn)).id)
            visit.noted["jobs"] = tried
            await record(conn)
        return len(tried)

    tried = await recorded(visit, act)
    return led(
        request, f"/console/batches/{batch.id}", said="retried" if tried else "nothing_to_retry", n=str(tried or "")
    )


@router.post("/pause")
@needs("operate", limited=True)
async def pause_batch(batch: Found, visit: Here, request: Request) -> Response:
    """Let it rest; what runs goes back after the step at hand."""
    await visit.app.batches.pause(batch.id, by=visit.caller, conn=visit.conn)
    return led(request, f"/console/batches/{batch.id}", said="paused")


@router.get("/cancel")
@needs("read", limited=True)
async def ask_cancel(batch: Found, visit: Here, request: Request) -> Response:
    """What stopping it for good means, before it is done."""
    now = await visit.app.batches.progress(batch.id)
    cancel = acts_of(batch, now, speaker(request), may=visit.may("operate"))[3]
    return console_page(request, "batch_cancel.html", current="batches", batch=batch, now=now, cancel=cancel)


@router.post("/cancel")
@needs("operate", limited=True)
async def cancel_batch(batch: Found, visit: Here, request: Request) -> Response:
    """Stop it for good; what is done stays done."""
    await visit.app.batches.cancel(batch.id, by=visit.caller, wait=False, conn=visit.conn)
    return led(request, f"/console/batches/{batch.id}", said="cancelled")


@router.post("/change")
@needs("operate", limited=True, streamed=True, records=True)
async def change_batch(batch: Found, visit: Here, request: Request) -> Response:
    """Another name, budget or number of resumes."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    changes: Changing = {
        "name": said.get("name", "").strip() or batch.name,
        "budget": _money(said.get("budget", "")),
    }
    if (resumes := _whole(said.get("max_resumes", ""))) is not None and resumes <= _MOST_RESUMES:
        changes["max_resumes"] = resumes

    async def act(record: Recording) -> None:
        async with visit.app.transaction() as conn:
            await visit.app.batches.change(batch.id, by=visit.caller, conn=conn, **changes)
            await record(conn)

    await recorded(visit, act)
    return led(request, f"/console/batches/{batch.id}", said="changed", tab="configuration")
