"""The price bank: listed, taken away as a file, brought up to date by workers, or by a person with a reason."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from retoma.pipelines.quotes.bank_values import UpdateMode
from retoma.pipelines.quotes.banking import PriceBank
from retoma.pipelines.quotes.exports import CSV
from retoma.pipelines.quotes.http import bank_schemas as shapes
from retoma.pipelines.quotes.http.context import CONTENT, LIMITED, NAME, Number, base_of, files_of
from retoma.web.api.schemas import requests
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.cursors import cursor_of, opened, point_to_next
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.http.route import ApiRoute

ROOT = "/api/price-bank"

router = APIRouter(prefix=ROOT, tags=["quotes"], route_class=ApiRoute)


async def _bank(visit: Here) -> PriceBank:
    visit.only(NAME)
    return PriceBank(visit.app)


Bank = Annotated[PriceBank, Depends(_bank)]
"""The price bank of the app that is served here, for whoever may see quotes."""


# — looking —


@router.get("")
@needs("read", limited=True, refuses=LIMITED)
async def list_bank_vehicles(
    wanted: Annotated[shapes.BankFilter, Query()], bank: Bank, request: Request, response: Response
) -> shapes.BankVehicles:
    """The vehicles whose price is known, the newest first."""
    before = None if wanted.cursor is None else opened(wanted.cursor)
    found = await bank.bank(before=before, limit=wanted.limit + 1)
    page = found[: wanted.limit]
    following = cursor_of(page[-1].id) if len(found) > wanted.limit else None
    point_to_next(request, response, following)
    return shapes.BankVehicles(vehicles=[shapes.BankVehicleShown.seen(each) for each in page], next=following)


@router.get("/download/csv", responses=files_of("text/csv"), response_class=Response)
@needs(CONTENT, limited=True, refuses=LIMITED)
async def download_price_bank(bank: Bank) -> Response:
    """The whole price bank as CSV."""
    headers = {"Content-Disposition": 'attachment; filename="banco-de-precos.csv"'}
    return StreamingResponse(bank.as_csv(), media_type=CSV, headers=headers)


@router.get("/{id:int}")
@needs("read", limited=True, refuses=LIMITED)
async def get_bank_vehicle(id: Number, bank: Bank) -> shapes.BankVehicleWhole:
    """A vehicle with every update of its price: what it was, what it became, how, by whom and why."""
    return await _whole(bank, id)


async def _whole(bank: PriceBank, id: int, conn: object = None) -> shapes.BankVehicleWhole:
    plain = shapes.BankVehicleShown.seen(await bank.vehicle(id, conn=conn)).model_dump()
    history = [shapes.BankUpdateShown.seen(each) for each in await bank.updates(id, conn=conn)]
    return shapes.BankVehicleWhole.model_validate({**plain, "updates": history})


# — acting —


@router.post("/update", status_code=202)
@needs("operate", limited=True, refuses=(*LIMITED, "conflict"))
async def update_price_bank(
    bank: Bank, visit: Here, request: Request, response: Response, wanted: shapes.UpdateAsked | None = None
) -> shapes.BankUpdateBegun:
    """Bring every price up to date, as a batch of ordinary jobs. A vehicle with a mode of its own keeps it; those that
    are left to a person, or left alone, are left out.
    """
    return await _begun(bank, visit, request, response, None, wanted)


@router.post("/{id:int}/update", status_code=202)
@needs("operate", limited=True, refuses=(*LIMITED, "conflict"))
async def update_bank_vehicle(
    id: Number, bank: Bank, visit: Here, request: Request, response: Response, wanted: shapes.UpdateAsked | None = None
) -> shapes.BankUpdateBegun:
    """Bring the price of one vehicle up to date: looked up again, or corrected by the index. What is further away than
    the tolerance waits for a person.
    """
    return await _begun(bank, visit, request, response, [id], wanted)


async def _begun(
    bank: PriceBank,
    visit: Visit,
    request: Request,
    response: Response,
    ids: list[int] | None,
    wanted: shapes.UpdateAsked | None,
) -> shapes.BankUpdateBegun:
    mode = UpdateMode((wanted or shapes.UpdateAsked()).mode)
    batch, count = await bank.update(ids, mode=mode, by=visit.caller, conn=visit.conn)
    await submitted(request, "batch", [batch])
    await quotas_of(request).make_room(visit, 0)
    place = response.headers["Location"] = base_of(request, f"/api/v1/batches/{batch}")
    return shapes.BankUpdateBegun(batch_id=batch, vehicles=count, status_url=place)


@router.post("/{id:int}/mode")
@needs("operate", limited=True, refuses=LIMITED)
async def set_bank_vehicle_mode(
    id: Number, wanted: shapes.ModeChosen, bank: Bank, visit: Here
) -> shapes.BankVehicleWhole:
    """How the price of a vehicle is brought up to date from now on: MARKET, IPCA, MANUAL or SKIP; null is as its
    project says.
    """
    await bank.set_mode(id, wanted.chosen(), conn=visit.conn)
    return await _whole(bank, id, visit.conn)


@router.post("/{id:int}/price")
@needs("operate", limited=True, refuses=LIMITED)
async def set_bank_vehicle_price(
    id: Number, wanted: shapes.PriceSaid, bank: Bank, visit: Here
) -> shapes.BankVehicleWhole:
    """What a vehicle is worth, as a person says it and why. An update that waits is refused by that."""
    await bank.set_price(id, Decimal(wanted.price), reason=wanted.reason, by=visit.caller, conn=visit.conn)
    return await _whole(bank, id, visit.conn)


@router.post("/updates/{update}/decide")
@needs("operate", limited=True, refuses=(*LIMITED, "conflict"))
async def decide_bank_update(
    update: Annotated[requests.Id, Path()], wanted: shapes.UpdateDecided, bank: Bank, visit: Here
) -> shapes.BankUpdateShown:
    """Say whether an update holds that waits for a person, and why. One of a quote is decided with the quote."""
    price = None if wanted.price is None else Decimal(wanted.price)
    done = await bank.decide(
        update, accept=wanted.accept, reason=wanted.reason, price=price, by=visit.caller, conn=visit.conn
    )
    return shapes.BankUpdateShown.seen(done)
