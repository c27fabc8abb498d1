"""Queues: how full they are; pause, resume and weigh them; limit a lane."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Response

from retoma.web.api.schemas import machine, requests, responses
from retoma.web.http.auth import Here, needs
from retoma.web.http.etags import tag_of
from retoma.web.http.route import ApiRoute

router = APIRouter(prefix="/queues", tags=["queues"], route_class=ApiRoute)

_AGE_SECONDS = 5
Name = Annotated[requests.QueueName, Path()]


@router.get("")
@needs("read")
async def list_queues(visit: Here, response: Response) -> responses.Queues:
    """The queues. How many jobs wait, could run now, and run in each."""
    found = await visit.app.queues.all()
    # An age grows by itself: it counts as another one after some seconds only.
    coarse = [replace(each, oldest_due_seconds=(each.oldest_due_seconds or 0) // _AGE_SECONDS) for each in found]
    response.headers["ETag"] = tag_of(coarse)
    return responses.Queues(queues=[responses.Queue.of(queue) for queue in found])


@router.get("/{name}")
@needs("read")
async def get_queue(name: Name, visit: Here, response: Response) -> machine.QueueState:
    """A queue with its lanes, how fast it moves, and how long its jobs wait and run. What it costs does not grow with
    the number of jobs.
    """
    found = await visit.app.queues.get(name)
    who = await visit.app.queues.paused_by(name) if found.depth.paused_at else {}
    shown = machine.QueueState.of_state(found, paused_by=who.get(name))
    # What only grows or fades with time counts as another answer after some seconds.
    ages = {"oldest_due_seconds", "pace"}
    response.headers["ETag"] = tag_of(
        [shown.model_dump(exclude=ages | {"lanes"}), (found.depth.oldest_due_seconds or 0) // _AGE_SECONDS]
        + [lane.model_dump(exclude=ages) for lane in shown.lanes]
        + [found.pace.came, found.pace.ended]
    )
    return shown


@router.post("/{name}/pause", status_code=204)
@needs("operate")
async def pause_queue(name: Name, visit: Here, body: requests.PauseUntil | None = None) -> None:
    """Let nobody take jobs from a queue. What runs goes on. With ``until`` or ``seconds`` it goes on by itself."""
    how = body or requests.PauseUntil()
    await visit.app.queues.pause(name, reason=how.reason, until=how.until, seconds=how.seconds, conn=visit.conn)


@router.post("/{name}/resume", status_code=204)
@needs("operate")
async def resume_queue(name: Name, visit: Here, _body: requests.Nothing | None = None) -> None:
    """Let a paused queue go on."""
    await visit.app.queues.resume(name, conn=visit.conn)


@router.post("/{name}/weight", status_code=204)
@needs("operate")
async def weigh_queue(name: Name, turns: requests.QueueWeight, visit: Here) -> None:
    """Give a queue so many turns for one turn of a queue of weight 1."""
    await visit.app.queues.weigh(name, turns.weight, conn=visit.conn)


@router.post("/{name}/limit", status_code=204)
@needs("operate")
async def limit_lane(name: Name, limit: requests.LaneLimit, visit: Here) -> None:
    """Let at most so many jobs of a lane run at the same time, over all workers."""
    visit.noted.update(lane=limit.lane, at_once=limit.at_once)
    await visit.app.queues.limit_lane(name, limit.lane, at_once=limit.at_once, conn=visit.conn)
