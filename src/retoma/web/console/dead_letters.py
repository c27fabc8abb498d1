"""Dead letters: the failed jobs of any batch, by cause and time; act on those that are ticked, or on all that match.
Those that a person has discarded are on a list of their own.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from retoma.errors import ConfigurationError
from retoma.model.job import Job
from retoma.model.operation import JobFilter
from retoma.web.console.filters import fields_in, filter_of, in_words, query_of
from retoma.web.console.render import console_page
from retoma.web.console.speaking import as_csv, problem_of, speaker, views_of
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.errors import Refusal
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

CONTENT = "content:read"
_PAGE = 50
_MOST_ROWS = 10_000

From = Annotated[int | None, Query(alias="from", ge=1, lt=2**63)]


@router.get("/dead-letters")
@needs("read", limited=True)
async def list_dead_letters(visit: Here, request: Request, older: From = None) -> Response:
    """Failed jobs, the newest first."""
    said, say, problem, which = fields_in(request.query_params), speaker(request), None, JobFilter(states=("failed",))
    settled = bool(said.get("discarded"))
    kept = {"discarded": "1"} if settled else {}
    try:
        which = _which(said, visit)
        total = await visit.app.jobs.estimate("reinstate" if settled else "discard", which)
        found, following = await _some(visit, which, settled=settled, before=older, limit=_PAGE)
    except (ConfigurationError, Refusal) as error:
        problem, total, found, following = problem_of(request, error), None, [], None
    return console_page(
        request,
        "dead_letters.html",
        current="dead-letters",
        status=200 if problem is None else problem.status,
        problem=problem,
        jobs=found,
        settled=settled,
        kept=kept,
        here=query_of(which) | kept,
        total=total,
        following=following,
        older=older,
        said=said,
        fields=query_of(which),
        words_of_filter=in_words(which, say),
        content=visit.may(CONTENT),
        views=await views_of(visit, "dead-letters"),
    )


@router.get("/dead-letters/csv")
@needs("read", limited=True)
async def export_dead_letters(visit: Here, request: Request) -> Response:
    """The same jobs as a table, at most ten thousand of them."""
    said, content, rows = fields_in(request.query_params), visit.may(CONTENT), list[tuple[Any, ...]]()
    which, settled = _which(said, visit), bool(said.get("discarded"))
    before: int | None = None
    while len(rows) < _MOST_ROWS:
        found, before = await _some(visit, which, settled=settled, before=before, limit=1000)
        rows += [
            (
                each.id,
                each.batch_id,
                each.pipeline,
                each.queue,
                each.key,
                each.reason,
                f"{each.attempt}/{each.max_attempts}",
                each.created_at.isoformat(),
                each.finished_at and each.finished_at.isoformat(),
                each.error if content else None,
            )
            for each in found
        ]
        if before is None:
            break
    heads = ("id", "batch", "pipeline", "queue", "key", "reason", "attempts", "created", "failed", "error")
    return as_csv("dead-letters.csv", heads, rows[:_MOST_ROWS])


def _which(said: dict[str, str], visit: Visit) -> JobFilter:
    return filter_of({name: text for name, text in said.items() if name not in ("state", "ids")}, visit,
                     states=("failed",))  # fmt: skip


async def _some(
    visit: Visit, which: JobFilter, *, settled: bool, before: int | None, limit: int
) -> tuple[list[Job], int | None]:
    page = await visit.app.jobs.dead_letters(which, discarded=settled, before=before, limit=limit)
    return page.jobs, page.next
