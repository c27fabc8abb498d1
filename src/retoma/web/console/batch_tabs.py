"""What each tab of a batch's page shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Any

import orjson

from retoma.model.batch import Batch, Event
from retoma.model.call import Spend
from retoma.web.api.cohorts import page_to_replan, takes_any
from retoma.web.console import batch_view as view
from retoma.web.console.speaking import Say
from retoma.web.http.auth import CONTENT, Visit

ROWS = 50
"""Jobs on a page; as many ticks as a form takes."""
EVENTS = 200
_STATE_EVENTS = 500
_GROUPS = 100
_BUCKETS = 60
_TOLD_MONEY_AFTER = 10  # jobs that have ended before a forecast is more than a guess

SETS: dict[str, tuple[list[str], bool | None]] = {
    "skips": (["completed", "skipped", "review"], None),
    "continues": (["queued", "running"], True),
    "begins": (["queued", "running"], False),
    "left": (["failed"], None),
}
"""The jobs that a resume skips, continues, begins and leaves: their states, and whether a step is saved."""


async def _documents(visit: Visit, batch: Batch, wanted: Any, _say: Say) -> dict[str, Any]:
    states, saved = SETS[wanted.set] if wanted.set else ([wanted.state] if wanted.state else None, None)
    found = await visit.app.batches.members(
        batch.id,
        states=states,
        fingerprint=wanted.group or None,
        text=wanted.q or None,
        saved=saved,
        after=wanted.after,
        limit=ROWS + 1,
    )
    counts = (await visit.app.batches.standings([batch.id])).get(batch.id)
    failed = any(each.error for each in found[:ROWS])
    return {
        "rows": found[:ROWS],
        "following": found[ROWS - 1].id if len(found) > ROWS else None,
        "counts": counts,
        "content": failed and visit.may(CONTENT),
        "hidden": failed,
    }


async def _errors(visit: Visit, batch: Batch, _wanted: Any, _say: Say) -> dict[str, Any]:
    groups = await visit.app.batches.errors(batch.id)
    shown = groups[:_GROUPS]
    return {
        "groups": shown,
        "failed": sum(each.jobs for each in groups),
        "content": any(each.example for each in shown) and visit.may(CONTENT),
    }


async def _steps(visit: Visit, batch: Batch, _wanted: Any, _say: Say) -> dict[str, Any]:
    return {
        "steps": await visit.app.batches.steps(batch.id),
        "durations": await visit.app.batches.durations(batch.id),
        "counts": (await visit.app.batches.standings([batch.id]))[batch.id],
    }


async def _charts(visit: Visit, batch: Batch, _wanted: Any, _say: Say) -> dict[str, Any]:
    buckets = await visit.app.batches.series(batch.id, buckets=_BUCKETS)
    points = [[each.at.timestamp(), each.done, each.failed, each.median_seconds, each.slow_seconds] for each in buckets]
    return {
        "buckets": buckets,
        "width": buckets[0].seconds if buckets else 0.0,
        "points": orjson.dumps(points).decode(),
    }


async def _timeline(visit: Visit, batch: Batch, _wanted: Any, say: Say) -> dict[str, Any]:
    after = max(0, batch.event_seq - EVENTS)
    found = await visit.app.batches.events(batch.id, after=after, limit=2 * EVENTS)
    return {"lines": view.lines_of(found, say, content=_content(visit, found)), "shown": EVENTS, "older": after > 0}


async def _history(visit: Visit, batch: Batch, _wanted: Any, say: Say) -> dict[str, Any]:
    found = await visit.app.batches.events(batch.id, limit=_STATE_EVENTS, jobs=False)
    told = [each for each in found if each.kind in ("stalled", "failed") or each.data.get("why") in _AGAIN]
    return {
        "lines": view.lines_of(told, say, content=_content(visit, told)),
        "operations": await visit.app.batches.operations(batch.id),
    }


_AGAIN = frozenset({"resumed", "retried", "restarted", "advanced"})


def _content(visit: Visit, events: list[Event]) -> bool:
    """Whether the words of errors are shown, where there are any."""
    return any(each.data.get("cause") for each in events) and visit.may(CONTENT)


async def _costs(visit: Visit, batch: Batch, _wanted: Any, _say: Say) -> dict[str, Any]:
    now = (await visit.app.batches.standings([batch.id]))[batch.id]
    ended = now.completed + now.skipped + now.review + now.failed
    known = ended >= _TOLD_MONEY_AFTER and not now.unpriced and now.done < now.total
    by_step = await visit.app.calls.spend("step", batch=batch.id, limit=50)
    return {
        "by_step": by_step,
        "by_model": await visit.app.calls.spend("model", batch=batch.id, limit=50),
        "whole": _whole(by_step),
        "forecast": now.spent / ended * now.total if known else None,
        "unpriced": now.unpriced,
    }


def _whole(spent: list[Spend]) -> dict[str, Decimal]:
    """All that was paid, by what became of it."""
    names = ("useful", "again", "lost", "doubtful")
    return {name: sum((getattr(each, name) for each in spent), Decimal(0)) for name in names}


async def _configuration(visit: Visit, batch: Batch, _wanted: Any, _say: Say) -> dict[str, Any]:
    shown = visit.may(CONTENT)
    text = orjson.dumps(batch.configuration, option=orjson.OPT_INDENT_2, default=str).decode() if shown else ""
    return {
        "configuration": text if batch.configuration else "",
        "content": shown,
        "cohorts": await visit.app.batches.cohorts(batch.id) if batch.cohort > 1 else [],
        "own": takes_any(visit.app, batch.pipeline),
        "replans": page_to_replan(visit.app, batch.pipeline),
    }


GATHER: Mapping[str, Callable[[Visit, Batch, Any, Say], Awaitable[dict[str, Any]]]] = {
    "documents": _documents,
    "errors": _errors,
    "steps": _steps,
    "charts": _charts,
    "timeline": _timeline,
    "costs": _costs,
    "configuration": _configuration,
    "history": _history,
}
