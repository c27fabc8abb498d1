"""Re-planning a batch from its page: another configuration for the rest of its jobs."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response

from retoma.web.api.batches import Found
from retoma.web.api.cohorts import takes_any
from retoma.web.console.change import led
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, needs
from retoma.web.http.errors import Refusal
from retoma.web.pages.forms import fields_of
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/batches/{id}", route_class=PageRoute)

_LARGEST_FORM = 1_000_000
_LONGEST = 200


@router.post("/replan")
@needs("operate", limited=True, streamed=True, records=True)
async def replan_batch(batch: Found, visit: Here, request: Request) -> Response:
    """Another configuration for the jobs that have not begun."""
    if not takes_any(visit.app, batch.pipeline):
        raise Refusal("pipeline_internal", pipeline=batch.pipeline)
    said = await fields_of(request, largest=_LARGEST_FORM)
    wanted = _configuration(said.get("configuration", ""))
    note = said.get("note", "").strip()[:_LONGEST] or None
    visit.noted.update({"note": note} if note else {})

    async def act(record: Recording) -> str:
        async with visit.app.transaction() as conn:
            done = await visit.app.batches.replan(
                batch.id, configuration=wanted, note=note, by=visit.caller, wait=False, conn=conn
            )
            await record(conn)
        return done.word

    word = await recorded(visit, act)
    return led(request, f"/console/batches/{batch.id}", said=word, tab="configuration")


def _configuration(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Refusal("validation_failed", said=f"The configuration is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise Refusal("validation_failed", said="The configuration is not a JSON object.")
    return found
