"""A new quote of one item; or a list, looked at before it is begun."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.model.ids import BatchId
from retoma.pipelines.quotes.conditions import MOST_YEARS, ConditionRefused, condition_of
from retoma.pipelines.quotes.images import MOST_BYTES as MOST_IMAGE_BYTES
from retoma.pipelines.quotes.images import MOST_SIDE, ImageRefused, KeptImage
from retoma.pipelines.quotes.keeping import shown_by
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.lists import (
    LONGEST_CODE,
    LONGEST_TEXT,
    MOST_BYTES,
    MOST_ITEMS,
    NAMES,
    ItemList,
    ListedItem,
    ListRefused,
)
from retoma.pipelines.quotes.pages.carried import COLUMN, Carried, carried
from retoma.pipelines.quotes.pages.context import LARGEST_FORM, Library, done, led, shown
from retoma.pipelines.quotes.pricing.valuation import Conservation
from retoma.providers import ProviderError
from retoma.web.http.auth import Here, needs
from retoma.web.http.multipart import Upload
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import base_of
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

_SEEN = 15
_PROBLEMS = 50
_UNFIT = 422
_LONGEST_PLACE = 200
_PILOT = 20


@router.get("/")
@needs("read", limited=True)
async def show_new_quote(library: Library, request: Request) -> Response:
    """The form of one item, and that of a list."""
    return await _form(library, request)


@router.post("/itens")
@needs("submit", limited=True, streamed=True)
async def create_quote(library: Library, visit: Here, request: Request) -> Response:
    """A quote of one item, with or without a photograph; a worker does it."""
    said, images, unseen = await _told(library, request)
    if unseen:
        return await _form(library, request, given=said, unseen=unseen, status=_UNFIT)
    place, researcher = (said.get(name, "").strip()[:_LONGEST_PLACE] or None for name in ("place", "researcher"))
    code = said.get("code", "").strip() or None
    try:
        project = _project(said)
        condition = condition_of(said)
        await quotas_of(request).make_room(visit, 1)
        id = await done(
            visit,
            lambda conn: library.create(
                said.get("text", ""),
                code=code,
                place=place,
                researcher=researcher,
                project_id=project,
                image=images,
                condition=condition,
                by=visit.caller,
                conn=conn,
            ),
            new=True,
        )
    except (ConfigurationError, NotFound) as error:
        await _let_go(library, images)  # who sends the form again sends them again
        unfit = error.code if isinstance(error, ConditionRefused) else ""
        return await _form(library, request, given=said, wrong=not unfit, unfit=unfit, status=_UNFIT)
    await submitted(request, "job", [(await library.quote(id)).job_id])
    return led(request, f"/itens/{id}")


async def _let_go(library: Quotes, images: tuple[KeptImage, ...]) -> None:
    await library.let_go(ItemList(items=[ListedItem(line=1, text="", kept=images)]))


async def _told(library: Quotes, request: Request) -> tuple[dict[str, str], tuple[KeptImage, ...], str]:
    """What the form says, the photographs that came with it, and why they are not taken if they are not."""
    if not request.headers.get("content-type", "").startswith("multipart/"):
        return await fields_of(request, largest=LARGEST_FORM), (), ""
    upload, unseen = Upload(request), ""
    images: tuple[KeptImage, ...] = ()
    async for filename, pieces in upload.files():
        content = await _whole(pieces)
        if content and not unseen:
            try:
                images = (*images, await library.keep_image(content, filename=filename))
                shown_by(images)
            except ImageRefused as error:
                unseen = error.code  # and the fields that follow are read all the same
            except (OSError, ProviderError, ConfigurationError):
                unseen = "store_unavailable"
    if unseen:
        await _let_go(library, images)
        images = ()
    return {key: value.replace("\0", "") for key, value in upload.fields.items()}, images, unseen


async def _whole(pieces: AsyncIterator[bytes]) -> bytes:
    found = bytearray()
    async for piece in pieces:
        found += piece
        if len(found) > MOST_IMAGE_BYTES:
            break  # the rest is not needed to refuse it
    return bytes(found)


def _project(said: dict[str, str]) -> int | None:
    told = said.get("project", "")
    if told and not (told.isascii() and told.isdecimal() and len(told) < 19):  # noqa: PLR2004 - what a bigint holds
        raise ConfigurationError("A project is told by its number.")
    return int(told) if told else None


async def _form(
    library: Quotes,
    request: Request,
    *,
    given: dict[str, str] | None = None,
    wrong: bool = False,
    refused: str = "",
    unseen: str = "",
    unfit: str = "",
    status: int = 200,
) -> Response:
    return await shown(
        request,
        library,
        "new",
        "new",
        status=status,
        given=given or {},
        wrong=wrong,
        refused=refused,
        unseen=unseen,
        unfit=unfit,
        states=[str(each) for each in Conservation],
        most_years=MOST_YEARS,
        image_megabytes=MOST_IMAGE_BYTES // 1_000_000,
        image_side=MOST_SIDE,
        projects=await library.projects(),
        longest=LONGEST_TEXT,
        longest_code=LONGEST_CODE,
        most=MOST_ITEMS,
        megabytes=MOST_BYTES >> 20,
    )


# — lists —


@router.post("/listas/previa")
@needs("submit", limited=True, streamed=True)
async def preview_list(library: Library, request: Request) -> Response:
    """What a list holds, before anything is begun; nothing is kept."""
    try:
        sent = await carried(request)
    except ListRefused as error:
        return await _form(library, request, refused=error.code, status=_UNFIT)
    return await _preview(library, request, sent)


@router.post("/listas")
@needs("submit", limited=True, streamed=True)
async def start_list(library: Library, visit: Here, request: Request) -> Response:
    """Begin a list; sent twice, it is the same batch."""
    try:
        sent = await carried(request)
    except ListRefused as error:
        return await _form(library, request, refused=error.code, status=_UNFIT)

    async def begin(listed: ItemList, conn: object) -> BatchId:
        id, _ = await library.create_batch(
            listed,
            name=sent.said.get("name", ""),
            filename=sent.filename,
            sha256=hashlib.sha256(sent.content).hexdigest(),
            project_id=_project(sent.said),
            researcher=sent.said.get("researcher", "").strip()[:_LONGEST_PLACE] or None,
            pilot=_PILOT if sent.said.get("do") == "pilot" else 0,
            by=visit.caller,
            conn=conn,
        )
        return id

    try:
        listed = await sent.read()
        await quotas_of(request).make_room(visit, len(listed.items))
        id = await done(visit, partial(begin, listed), new=True)
    except ListRefused:
        return await _preview(library, request, sent)
    except (ConfigurationError, Conflict, NotFound):
        return await _preview(library, request, sent, wrong=True)
    await submitted(request, "batch", [id])
    if sent.said.get("do") == "pilot" and (await library.app.batches.get(id)).held_at is not None:
        return RedirectResponse(f"{base_of(request)}/console/batches/{id}/pilot", 303)
    return led(request, f"/listas/{id}")


async def _preview(library: Quotes, request: Request, sent: Carried, *, wrong: bool = False) -> Response:
    listed, refused = ItemList(), None
    try:
        listed = await sent.read()
    except ListRefused as error:
        if not error.headers:
            return await _form(library, request, refused=error.code, status=_UNFIT)
        refused = error
    headers = [each for each in (refused.headers if refused else listed.headers) if each]
    values: dict[str, Any] = {
        "sent": sent,
        "listed": listed,
        "refused": refused.code if refused else "",
        "wrong": wrong,
        "column_names": list(dict.fromkeys(headers)),
        "item_parts": list(NAMES),
        "column": COLUMN,
        "chosen": (sent.columns or {}) if refused else listed.columns,
        "seen": _SEEN,
        "problems": listed.problems[:_PROBLEMS],
        "projects": await library.projects(),
    }
    bad = wrong or refused is not None
    return await shown(request, library, "preview", "new", status=_UNFIT if bad else 200, **values)
