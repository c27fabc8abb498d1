"""A new batch of any pipeline: a form made from the type of its input, or many inputs at once; with a pilot or not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from retoma.errors import ConfigurationError
from retoma.model.batch import Batch
from retoma.model.described import Described
from retoma.values.codec import Misfit
from retoma.web.api.jobs import open_pipeline
from retoma.web.api.pipelines import known_pipelines
from retoma.web.console.input_fields import InputField, fields_of_schema, read
from retoma.web.console.many_inputs import MOST, BadRow, read_rows
from retoma.web.console.render import console_page
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.errors import Refusal
from retoma.web.http.multipart import Upload
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.pages.languages import base_of
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

PILOT = 20
_BAD = 422
_SHOWN_ROWS = 50
_NUMBERS = {"priority": (-1000, 1000), "at_once": (1, 10_000), "pilot": (1, 1000)}


@dataclass(slots=True)
class Said:
    """What a form says, and what is wrong with it."""

    fields: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    bad: list[BadRow] = field(default_factory=list)
    fits: int = 0
    problem: str = ""

    def get(self, name: str, otherwise: str = "") -> str:
        return self.fields.get(name, otherwise)

    @property
    def refused(self) -> bool:
        return bool(self.wrong or self.bad or self.problem)


@router.get("/new")
@needs("submit", limited=True)
async def show_new(visit: Here, request: Request, pipeline: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The pipelines of the program, or the form of one."""
    return _shown(visit, request, pipeline, Said())


@router.post("/new")
@needs("submit", limited=True, streamed=True)
async def make_batch(visit: Here, request: Request) -> Response:
    """Make the batch that the form describes. What is wrong is told beside its field, and what was written stays."""
    said = await _said(request)
    name = said.get("pipeline")
    visit.only(name)
    pipeline = open_pipeline(visit.app, name)
    found = next(each for each in known_pipelines(visit.app, visit.pipelines) if each.name == name)
    inputs = _inputs(pipeline.input, found, said)
    options = _options(said)
    batch = None if said.refused else await _made(visit, request, pipeline, inputs, options, said)
    if batch is None:
        visit.unchanged = True
        return _shown(visit, request, name, said, status=_BAD)
    place = f"{base_of(request)}/console/batches/{batch.id}"
    return RedirectResponse(f"{place}/pilot" if batch.held_at else place, 303)


async def _said(request: Request) -> Said:
    upload, files = Upload(request), {}
    async for _name, content in upload.files():
        files[upload.field] = b"".join([piece async for piece in content])
    fields = {name: value.replace("\0", "\ufffd") for name, value in upload.fields.items()}
    return Said(fields=fields, files=files)


def _inputs(codec: Any, found: Described, said: Said) -> list[Any]:
    """The inputs of the form: many of them in a file or in the text, or the one that its fields say."""
    sent = said.files.get("rows_file")
    text = said.get("rows") if sent is None else sent.decode("utf-8", "replace")
    if text.strip():
        if sent is not None:
            said.fields = {**said.fields, "rows": text}  # what was sent is there again, to be mended
        rows = read_rows(text, codec)
        said.bad, said.fits = rows.bad, len(rows.inputs)
        if len(rows.inputs) > MOST:
            said.problem = "too_many"
        return rows.inputs
    schema = found.input_schema
    one = read(fields_of_schema(schema), said.fields, said.files, schema)
    said.wrong |= {f"input.{name}" if name else "input": kind for name, kind in one.wrong.items()}
    if one.wrong:
        return []
    return _decoded(codec, one.value, said)


def _decoded(codec: Any, value: Any, said: Said) -> list[Any]:
    try:
        return [codec.decode(json.dumps(value))]
    except Misfit as misfit:
        place = misfit.place.partition(".")[0]
        known = f"input.{place}" if place else "input"
        said.wrong[known] = misfit.reason
        return []


def _options(said: Said) -> dict[str, Any]:
    """Name, labels, budget, priority and the rest; what is wrong is noted."""
    if not said.get("name").strip():
        said.wrong["name"] = "missing"
    options = {"labels": _labels(said), "budget": _budget(said), "pilot": 0}
    for name, (least, most) in _NUMBERS.items():
        text = said.get(name).strip()
        if name == "pilot" and said.get("do") != "pilot":
            continue
        number = int(text) if text.removeprefix("-").isdecimal() else None
        if text and (number is None or not least <= number <= most):
            said.wrong[name] = "integer"
        options[name] = number if text else PILOT if name == "pilot" else None
    return {name: value for name, value in options.items() if value is not None}


def _labels(said: Said) -> dict[str, str] | None:
    lines = [line.partition("=") for line in said.get("labels").splitlines() if line.strip()]
    if not all(name.strip() and equals for name, equals, _ in lines):
        said.wrong["labels"] = "labels"
    return {name.strip(): value.strip() for name, _, value in lines} or None


def _budget(said: Said) -> Decimal | None:
    text = said.get("budget").strip().replace(",", ".")
    try:
        return Decimal(text) if text else None
    except InvalidOperation:
        said.wrong["budget"] = "number"
        return None


async def _made(
    visit: Visit, request: Request, pipeline: Any, inputs: list[Any], options: dict[str, Any], said: Said
) -> Batch:
    async def make(record: Recording) -> Batch:
        async with visit.app.transaction() as visit.conn:
            await quotas_of(request).make_room(visit, len(inputs))
            name = said.get("name").strip()
            batch = await visit.app.batch(
                pipeline, inputs, name=name, conn=visit.conn, correlation_id=visit.correlation_id, **options
            )
            await submitted(request, "batch", [batch.id])
            await record(visit.conn, batch.id)
        return batch

    try:
        return await recorded(visit, make)
    except ConfigurationError as error:
        raise Refusal("validation_failed", said=error.message) from error


def _shown(visit: Visit, request: Request, name: str, said: Said, *, status: int = 200) -> Response:
    known = known_pipelines(visit.app, visit.pipelines)
    chosen = next((each for each in known if each.name == name and not each.internal), None)
    fields: list[InputField] = fields_of_schema(chosen.input_schema) if chosen else []
    own = [each for each in known if not each.internal]
    products = list({each.page: each for each in known if each.internal and each.page}.values())
    return console_page(
        request,
        "new.html",
        current="new",
        status=status,
        own=own,
        products=products,
        chosen=chosen,
        unknown=name if name and chosen is None else "",
        fields=fields,
        said=said,
        bad=said.bad[:_SHOWN_ROWS],
        pilot=PILOT,
        most=MOST,
    )
