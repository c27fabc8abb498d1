"""The system: how the database is doing, what the doctor finds, how large and how busy it is."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Query, Request

from retoma.app.doctor.facts import Facts, facts
from retoma.errors import NotFound
from retoma.postgres.migrate import HEAD
from retoma.web.api.schemas import machine, requests, responses
from retoma.web.checkup import Checkup, told, worst
from retoma.web.http.auth import Here, SiteContext, Visit, needs
from retoma.web.http.route import ApiRoute
from retoma.web.http.stream import EventHub
from retoma.web.words import language_of

router = APIRouter(prefix="/system", tags=["system"], route_class=ApiRoute)


@router.get("/health")
@needs("read")
async def get_health(visit: Here) -> responses.Health:
    """How the database is doing, and who works."""
    return responses.Health.of(await visit.app.system.health())


@router.get("/doctor")
@needs("read")
async def get_doctor(visit: Here, request: Request) -> machine.Checkup:
    """What is well, what is not, and what to do about it. It is what ``retoma doctor`` says, at most half a minute old,
    in the language of Accept-Language. Names of accounts, keys and sessions are there with the scope ``operate``.
    """
    place: SiteContext = request.state.retoma
    found = await place.room(Checkup).findings()
    language = language_of(request.headers.get("accept-language", ""))
    shown = told(found, language, whole=visit.may("operate"))
    return machine.Checkup.model_validate({"level": worst(found), "findings": [asdict(each) for each in shown]})


@router.get("/state")
@needs("read")
async def get_system_state(visit: Here, request: Request) -> machine.SystemState:
    """Versions, sizes, retention, the watchdog's rounds, and how busy this server process is."""
    return state_of(visit, request.state.newsroom, await facts(visit.app))


def state_of(visit: Visit, newsroom: EventHub, known: Facts) -> machine.SystemState:
    """How large and how busy the system is, as far as it is *known*."""
    app = visit.app
    at = known.revision
    pool = app.database.use()
    return machine.SystemState(
        version=version("retoma"),
        revision=at.revision,
        needed_revision=HEAD,
        database_bytes=at.bytes,
        retention_days=app.settings.retention_days,
        streams=newsroom.streams,
        pool_open=pool.open,
        pool_idle=pool.idle,
        pool_most=pool.most,
        pool_waiting=pool.waiting,
        tables=[machine.TableSize.of(each) for each in known.sizes],
        rounds=[machine.DutyRound.of(each) for each in known.rounds],
        overstays=[machine.Overstay.of(each) for each in known.overstays],
    )


@router.get("/metrics")
@needs("read", refuses=("not_found",))
async def get_metrics(wanted: Annotated[requests.WorkerLabel, Query()], visit: Here) -> responses.Metrics:
    """The seven figures of the worker that carries a label, all its executors and restarts together."""
    if not await visit.app.workers.all(gone=True, label=wanted.label, limit=1):
        raise NotFound(f"No worker carries the label {wanted.label!r}.")
    return responses.Metrics.of(await visit.app.workers.metrics(wanted.label))
