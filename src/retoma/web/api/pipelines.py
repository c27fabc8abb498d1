"""Pipelines: what the served program can do, and what each takes as input."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from retoma.app.retoma import Retoma
from retoma.model import described
from retoma.run.description import described as described_of
from retoma.web.api.schemas.responses import Schema
from retoma.web.http.auth import Here, needs
from retoma.web.http.route import ApiRoute

router = APIRouter(prefix="/pipelines", tags=["pipelines"], route_class=ApiRoute)


class Pipeline(Schema):
    """A pipeline of the program: where its jobs wait, what its input looks like, whether it asks a model."""

    name: str
    queue: str
    description: str
    input_schema: dict[str, Any]
    asks_model: bool
    providers: list[str]
    internal: bool
    page: str | None


class Pipelines(Schema):
    """The pipelines, by name."""

    pipelines: list[Pipeline]


def known_pipelines(app: Retoma, only: tuple[str, ...] | None = None) -> list[described.Described]:
    """The pipelines of the program, by name, without those of the house; of a caller who is limited, *only* theirs."""
    pages = {
        pipeline.name: each.links[0].path
        for each in app.extensions
        if each.links
        for pipeline in each.load_pipelines()
        if pipeline.cron is None
    }
    registry = app.registry
    return [
        described_of(registry.pipeline(name), provided=registry.provided[name], page=pages.get(name))
        for name in registry.own
        if only is None or name in only
    ]


@router.get("")
@needs("read", limited=True)
async def list_pipelines(visit: Here) -> Pipelines:
    """What the served program can do. Each pipeline with its queue, the JSON schema of its input, and whether it asks a
    model.
    """
    found = known_pipelines(visit.app, visit.pipelines)
    return Pipelines(pipelines=[Pipeline.of(each) for each in found])
