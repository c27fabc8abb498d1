"""The page of a batch: how far it is, what keeps it, its jobs as a mosaic, and its tabs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.responses import RedirectResponse

from retoma.model.batch import Batch, BatchState
from retoma.model.job import JobState
from retoma.web.api.batches import Found
from retoma.web.api.schemas.requests import Wanted
from retoma.web.console import batch_tabs as tabs
from retoma.web.console import batch_view as view
from retoma.web.console.render import console_page
from retoma.web.console.speaking import Say, spanner, speaker
from retoma.web.http.auth import CONTENT, Here, Visit, needs
from retoma.web.pages.languages import base_of, language_for
from retoma.web.pages.render import region_of
from retoma.web.pages.route import PageRoute
from retoma.web.pages.styles import state_styles
from retoma.web.words.causes import cause_shown, translated

router = APIRouter(prefix="/batches/{id}", route_class=PageRoute)

SAID = ("resumed", "no_workers", "already_running", "already_finished", "completed", "retried", "already_retrying",
        "nothing_to_retry", "paused", "cancelled", "changed", "replanned", "already_planned")  # fmt: skip
_STATE = "|".join(JobState)
_MOST_PLACES = 1_000_000

Tab = Literal["documents", "errors", "steps", "charts", "timeline", "costs", "configuration", "history"]
TABS: tuple[Tab, ...] = ("documents", "errors", "steps", "charts", "timeline", "costs", "configuration", "history")


class BatchWanted(Wanted):
    """Which tab, which of its jobs, and what was just done."""

    tab: Tab = "documents"
    state: Annotated[str, Field(pattern=f"^({_STATE})?$")] = ""
    set: Literal["", "skips", "continues", "begins", "left"] = ""
    group: Annotated[str, Field(pattern="^([0-9a-f]{12})?$")] = ""
    q: Annotated[str, Field(max_length=200)] = ""
    after: Annotated[int, Field(ge=0, lt=2**63)] = 0
    said: Annotated[str, Field(max_length=30)] = ""
    n: Annotated[int, Field(ge=0, lt=2**31)] = 0

    @property
    def narrowed(self) -> bool:
        """Whether some jobs are left out."""
        return bool(self.state or self.set or self.group or self.q)

    def address(self, **changes: object) -> str:
        """The query of the same jobs with *changes*, from the first page on."""
        asked = {"tab": self.tab, "state": self.state, "set": self.set, "group": self.group, "q": self.q, **changes}
        return urlencode({name: value for name, value in asked.items() if value})


Gather = Callable[[Visit, Batch, BatchWanted, Say], Awaitable[dict[str, Any]]]


@router.get("")
@needs("read", limited=True)
async def show_batch(batch: Found, wanted: Annotated[BatchWanted, Query()], visit: Here, request: Request) -> Response:
    """A batch, live; a region of it alone where one is asked for, and then only what that region shows."""
    say, region = speaker(request), region_of(request)
    values: dict[str, Any] = {}
    for name, gather in _REGIONS.items():
        if region in (None, name) or region not in _REGIONS:
            values |= await gather(visit, batch, wanted, say)
    if "why" in values and values["why"] is not None:
        values["stuck"] = _panel(values["why"], visit, language_for(request))
    return console_page(
        request,
        "batch.html",
        current="batches",
        batch=batch,
        wanted=wanted,
        tabs=TABS,
        said=wanted.said if wanted.said in SAID else "",
        span=spanner(request),
        script_words=("console.batch.mosaic", "console.batch.chart", "state.job."),
        **values,
    )


def _panel(why: Any, visit: Visit, language: str) -> view.Stuck:
    content = visit.may(CONTENT)
    return view.stuck_of(translated(why, language), content=content)


async def _summary(visit: Visit, batch: Batch, _: BatchWanted, say: Say) -> dict[str, Any]:
    now = await visit.app.batches.progress(batch.id)
    why = None
    if view.wants_explanation(now):
        content = visit.may(CONTENT)
        why = await visit.app.batches.explain(batch.id, words=content)
        why.evidence["cause"] = cause_shown(why.evidence.get("cause"), content=content)
    still = now.state is not BatchState.RUNNING or why is not None
    return {
        "now": now,
        "why": why,
        "stuck": None,
        "eta": view.eta_of(now, say),
        "acts": view.acts_of(batch, now, say, may=visit.may("operate")),
        "all_failed": now.state is BatchState.COMPLETED and now.failed == now.total,
        "looks_again": not now.state.ended and still,
    }


async def _mosaic(visit: Visit, batch: Batch, _: BatchWanted, _say: Say) -> dict[str, Any]:
    return {"letters": await visit.app.batches.mosaic(batch.id)}


async def _tab(visit: Visit, batch: Batch, wanted: BatchWanted, say: Say) -> dict[str, Any]:
    gathered = await tabs.GATHER[wanted.tab](visit, batch, wanted, say)
    return {"looks": state_styles(), **gathered}


_REGIONS: dict[str, Gather] = {"summary": _summary, "mosaic": _mosaic, "tab": _tab}


@router.get("/at")
@needs("read", limited=True)
async def find_job(
    batch: Found, visit: Here, request: Request, place: Annotated[int, Query(ge=0, lt=_MOST_PLACES)] = 0
) -> Response:
    """The job at a place of the mosaic."""
    id = await visit.app.batches.placed(batch.id, place)
    return RedirectResponse(f"{base_of(request)}/console/jobs/{id}", 303)
