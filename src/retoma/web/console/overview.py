"""The overview: what runs, what is stuck, what failed, what it costs today, what needs a person."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from fastapi import APIRouter, Request, Response

from retoma.model.batch import Batch, BatchState, Progress
from retoma.model.overview import Overview
from retoma.web.console.batch_view import eta_of
from retoma.web.console.render import console_page
from retoma.web.console.speaking import Say, span, spanner, speaker
from retoma.web.http.auth import CONTENT, Here, needs
from retoma.web.http.money import Money
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

UNDER_WAY = (BatchState.STALLED, BatchState.RUNNING, BatchState.PAUSED, BatchState.QUEUED)
_ROWS = 12
_GROUPS = 5
_SLOW_WAIT = 300.0
_TOLD_AGE = 1.0
_PLACES = {"no_workers": "workers", "unwatched": "workers", "workers_silent": "workers", "queues_paused": "queues"}
_COMMANDS = {
    "no_workers": "retoma worker",
    "unwatched": "retoma watchdog",
    "workers_silent": "retoma workers",
    "queues_paused": "retoma queue list",
}


@dataclass(frozen=True, slots=True)
class Card:
    """A figure that leads somewhere; *more* says what lies behind it."""

    name: str
    value: str
    more: str
    place: str
    tone: str


@dataclass(frozen=True, slots=True)
class Row:
    """A batch under way and how far it has come."""

    batch: Batch
    standing: Progress
    eta: str


@router.get("/")
@needs("read")
async def show_overview(visit: Here, request: Request) -> Response:
    """The whole system at a glance, live."""
    say = speaker(request)
    now = await request.state.retoma.room(Money).overview()
    found = await visit.app.batches.find(states=UNDER_WAY, limit=_ROWS + 1)
    standing = await visit.app.batches.standings([each.id for each in found])
    rows = [Row(each, standing[each.id], eta_of(standing[each.id], say).told) for each in found if each.id in standing]
    troubles = await visit.app.jobs.errors(limit=_GROUPS)
    return console_page(
        request,
        "overview.html",
        current="",
        now=now,
        cards=_cards,
        rows=sorted(rows, key=lambda row: UNDER_WAY.index(row.batch.state))[:_ROWS],
        more_batches=len(found) > _ROWS,
        troubles=troubles,
        content=bool(troubles) and visit.may(CONTENT),
        fixes=[(word, _PLACES[word], _COMMANDS[word]) for word in now.unwell],
        span=spanner(request),
    )


def _cards(now: Overview, say: Say, number: Callable[[int], str], money: Callable[[Decimal], str]) -> list[Card]:
    """The figures, in the order in which people worry."""

    def count(value: int) -> str:
        return f"{number(value)}+" if value >= now.counted_to else number(value)

    batches = now.batches
    wait = now.oldest_wait_seconds
    slow = wait is not None and wait >= _SLOW_WAIT
    waits = say("console.overview.card.waits", wait=span(wait)) if wait is not None else ""
    moving = say("console.overview.card.moving_more", n=batches["running"], count=number(batches["running"]))
    there = "well" if now.workers_alive else "none"
    silent = say("console.overview.card.workers_more", n=now.workers_silent, count=number(now.workers_silent))
    return [
        Card("moving", count(now.running), moving, "batches?state=running", "busy" if now.running else "quiet"),
        Card(
            "stuck",
            number(batches["stalled"]),
            say("console.overview.card.stuck_more", n=batches["paused"], count=number(batches["paused"])),
            "batches?state=stalled,paused",
            "warn" if batches["stalled"] else "quiet",
        ),
        Card("waiting", count(now.queued), waits, "queues", "warn" if slow else "quiet"),
        Card(
            "failed",
            count(now.failed_lately),
            say("console.overview.card.failed_more", n=batches["failed"], count=number(batches["failed"])),
            "errors",
            "bad" if now.failed_lately or batches["failed"] else "good",
        ),
        Card(
            "person",
            count(now.review),
            say("console.overview.card.person_more"),
            "review",
            "warn" if now.review else "good",
        ),
        Card("cost", money(now.spent_today), _dated(_of_the_cost(now, say, number, money), now, say), "costs", "quiet"),
        Card(
            "workers",
            number(now.workers_alive),
            silent if now.workers_silent else say(f"console.overview.card.workers_{there}"),
            "workers",
            "warn" if now.workers_silent or not now.workers_alive else "good",
        ),
    ]


def _dated(text: str, now: Overview, say: Say) -> str:
    """*text*, and how old the sums are, where they were kept for a while."""
    if now.money_age_seconds < _TOLD_AGE:
        return text
    return f"{text} · {say('console.overview.card.cost_age', span=span(now.money_age_seconds))}"


def _of_the_cost(now: Overview, say: Say, number: Callable[[int], str], money: Callable[[Decimal], str]) -> str:
    """What there is to say of the money of today: the first of these that holds."""
    if now.unpriced_today:
        return say("console.overview.card.cost_unpriced", n=now.unpriced_today, count=number(now.unpriced_today))
    if now.again_today:
        return say("console.overview.card.cost_again", amount=money(now.again_today))
    if now.doubtful_today:
        return say("console.overview.card.cost_doubtful", amount=money(now.doubtful_today))
    return say("console.overview.card.cost_more" if now.spent_today else "console.overview.card.cost_none")
