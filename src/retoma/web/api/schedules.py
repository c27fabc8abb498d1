"""Schedules: jobs that come back by the clock."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from retoma.run.pipeline import Pipeline
from retoma.values.codec import Misfit
from retoma.web.api.jobs import open_pipeline
from retoma.web.api.schemas import machine, requests, responses
from retoma.web.api.schemas.responses import Fault
from retoma.web.http import etags
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.errors import Refusal
from retoma.web.http.route import ApiRoute

router = APIRouter(prefix="/schedules", tags=["schedules"], route_class=ApiRoute)

Name = Annotated[requests.Text, Path()]


@router.get("")
@needs("read")
async def list_schedules(visit: Here) -> machine.ScheduleStates:
    """The schedules, by name, with what they queued last. Their inputs are there with the scope ``content:read``."""
    content = visit.may("content:read")
    runs = await visit.app.schedules.runs()
    found = await visit.app.schedules.all()
    return machine.ScheduleStates(
        schedules=[machine.ScheduleState.of_schedule(each, runs.get(each.name, []), content=content) for each in found]
    )


@router.post("", status_code=201)
@needs(
    "operate",
    refuses=("pipeline_internal", "pipeline_unknown", "program_missing", "conflict", "value_unstorable"),
)
async def create_schedule(new: machine.NewSchedule, visit: Here) -> responses.Schedule:
    """Let a job of a pipeline come back by the clock. A name that is taken is refused."""
    visit.noted.update(schedule=new.name, pipeline=new.pipeline, cron=new.cron, zone=new.zone)
    pipeline = open_pipeline(visit.app, new.pipeline)
    made = await visit.app.schedules.put(
        pipeline,
        input_of(pipeline, new.input),
        name=new.name,
        cron=new.cron,
        zone=new.zone,
        new=True,
        conn=visit.conn,
    )
    return responses.Schedule.of(made)


@router.get("/{name}")
@needs("read")
async def get_schedule(name: Name, visit: Here, response: Response) -> machine.ScheduleState:
    """A schedule, the times that come next, and what it queued last."""
    shown = await _shown(name, visit)
    response.headers["ETag"] = _tag(shown)
    return shown


async def _shown(name: str, visit: Visit) -> machine.ScheduleState:
    found = await visit.app.schedules.get(name)
    runs = (await visit.app.schedules.runs(each=20)).get(name, [])
    return machine.ScheduleState.of_schedule(found, runs, content=visit.may("content:read"))


def _tag(shown: machine.ScheduleState) -> str:
    return etags.tag_of("schedule", shown.model_dump_json())


async def _refuse_other(name: str, visit: Visit, request: Request) -> None:
    """What the caller looked at must still be as it was, if they say so."""
    if etags.is_named(request):
        etags.refuse_other(request, _tag(await _shown(name, visit)))


@router.patch("/{name}")
@needs(
    "operate",
    refuses=(
        "not_found",
        "precondition_failed",
        "pipeline_internal",
        "pipeline_unknown",
        "program_missing",
        "value_unstorable",
    ),
)
async def change_schedule(
    name: Name, change: machine.ScheduleChange, visit: Here, request: Request
) -> responses.Schedule:
    """Let a schedule come at another time, or with another input."""
    await _refuse_other(name, visit, request)
    said = change.model_dump(exclude_unset=True)
    if "input" not in said:
        changed = await visit.app.schedules.change(name, cron=change.cron, zone=change.zone, conn=visit.conn)
        return responses.Schedule.of(changed)
    found = await visit.app.schedules.get(name, conn=visit.conn)
    pipeline = open_pipeline(visit.app, found.pipeline)
    visit.noted["input"] = "another"
    changed = await visit.app.schedules.put(
        pipeline,
        input_of(pipeline, change.input),
        name=name,
        cron=change.cron or found.cron,
        zone=change.zone or found.zone,
        conn=visit.conn,
    )
    return responses.Schedule.of(changed)


@router.delete("/{name}", status_code=204)
@needs("operate", refuses=("not_found", "precondition_failed"))
async def delete_schedule(name: Name, visit: Here, request: Request, _body: requests.Nothing | None = None) -> None:
    """Forget a schedule. Jobs that it queued stay."""
    await _refuse_other(name, visit, request)
    await visit.app.schedules.remove(name, conn=visit.conn)


def input_of(pipeline: Pipeline[Any, Any], given: Any) -> Any:
    """*given* as the pipeline takes it."""
    try:
        return pipeline.input.decode(json.dumps(given))
    except Misfit as misfit:
        fault = Fault(pointer="/input", code="input_unfit", detail=str(misfit))
        raise Refusal("validation_failed", faults=[fault]) from None


@router.post("/{name}/run", status_code=202)
@needs("operate")
async def run_schedule(
    name: Name, visit: Here, request: Request, response: Response, _body: requests.Nothing | None = None
) -> responses.Queued:
    """Queue a schedule's job now. Its clock goes on as it was."""
    id = await visit.app.schedules.run(name, conn=visit.conn)
    place = response.headers["Location"] = f"{request.url.path.rsplit('/', 3)[0]}/jobs/{id}"
    return responses.Queued(id=id, status_url=place)


@router.post("/{name}/pause", status_code=204)
@needs("operate")
async def pause_schedule(name: Name, visit: Here, _body: requests.Nothing | None = None) -> None:
    """Let a schedule rest."""
    await visit.app.schedules.pause(name, conn=visit.conn)


@router.post("/{name}/resume")
@needs("operate")
async def resume_schedule(name: Name, visit: Here, _body: requests.Nothing | None = None) -> responses.Schedule:
    """Let a schedule go on, from the next time that comes."""
    return responses.Schedule.of(await visit.app.schedules.resume(name, conn=visit.conn))
