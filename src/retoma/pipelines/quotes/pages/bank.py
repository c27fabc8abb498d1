"""The price bank: its vehicles with how each price came to be; brought up to date, priced and decided by people."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field

from retoma.errors import ConfigurationError, Conflict
from retoma.pipelines.quotes.bank_values import UpdateMode
from retoma.pipelines.quotes.banking import PriceBank, price_of
from retoma.pipelines.quotes.pages.context import LARGEST_FORM, NAME, Number, done, led, shown
from retoma.web.api.schemas.requests import Id, Wanted
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.pages.forms import fields_of
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/banco", route_class=PageRoute)

_ROWS = 50
_WAITING = 50
_UNFIT, _CONFLICT = 422, 409
_BY_MACHINE = ("MARKET", "IPCA")


async def _bank(visit: Here) -> PriceBank:
    visit.only(NAME)
    return PriceBank(visit.app)


Bank = Annotated[PriceBank, Depends(_bank)]


class BankWanted(Wanted):
    """Which vehicles, and what was just done."""

    antes: Annotated[int, Field(ge=1, lt=2**63)] | None = None
    dito: Literal["", "begun", "mode", "price", "accepted", "refused"] = ""


@router.get("")
@needs("read", limited=True)
async def show_bank(wanted: Annotated[BankWanted, Query()], bank: Bank, request: Request) -> Response:
    """The vehicles whose price is known, and the updates that wait for a person."""
    return await _page(bank, request, said=wanted.dito, before=wanted.antes)


async def _page(
    bank: PriceBank, request: Request, *, said: str = "", wrong: str = "", before: int | None = None, status: int = 200
) -> Response:
    found = await bank.bank(before=before, limit=_ROWS + 1)
    waiting = await bank.updates(waiting=True, limit=_WAITING)
    return await shown(
        request,
        bank,
        "bank",
        "bank",
        status=status,
        vehicles=found[:_ROWS],
        waiting=[(each, await bank.vehicle(each.vehicle_id)) for each in waiting],
        more=found[_ROWS - 1].id if len(found) > _ROWS else None,
        before=before,
        said=said,
        wrong=wrong,
        machine=_BY_MACHINE,
    )


@router.get("/{id}")
@needs("read", limited=True)
async def show_vehicle(id: Number, wanted: Annotated[BankWanted, Query()], bank: Bank, request: Request) -> Response:
    """A vehicle, with every update of its price."""
    return await _vehicle(bank, request, id, said=wanted.dito)


async def _vehicle(
    bank: PriceBank, request: Request, id: int, *, said: str = "", wrong: str = "", status: int = 200, **more: Any
) -> Response:
    vehicle = await bank.vehicle(id)
    values: dict[str, Any] = {
        "vehicle": vehicle,
        "updates": await bank.updates(id),
        "modes": [str(each) for each in UpdateMode],
        "machine": _BY_MACHINE,
        "said": said,
        "wrong": wrong,
        "given": {},
    }
    return await shown(request, bank, "vehicle", "bank", status=status, **{**values, **more})


# — acting: every button is a form —


@router.post("/atualizar")
@needs("operate", limited=True, streamed=True)
async def update_bank(bank: Bank, visit: Here, request: Request) -> Response:
    """Bring every price up to date."""
    mode = _mode(await fields_of(request, largest=LARGEST_FORM))
    try:
        await _begun(bank, visit, request, None, mode)
    except Conflict:
        visit.unchanged = True
        return await _page(bank, request, wrong="nothing", status=_UNFIT)
    return led(request, "/banco?dito=begun")


@router.post("/{id}/atualizar")
@needs("operate", limited=True, streamed=True)
async def update_vehicle(id: Number, bank: Bank, visit: Here, request: Request) -> Response:
    """Bring the price of one vehicle up to date."""
    mode = _mode(await fields_of(request, largest=LARGEST_FORM))
    try:
        await _begun(bank, visit, request, [id], mode)
    except Conflict:
        visit.unchanged = True
        return await _vehicle(bank, request, id, wrong="nothing", status=_UNFIT)
    return led(request, f"/banco/{id}?dito=begun")


async def _begun(bank: PriceBank, visit: Visit, request: Request, ids: list[int] | None, mode: UpdateMode) -> None:
    await quotas_of(request).make_room(visit, 0)

    async def begin(conn: Any) -> int:
        batch, _ = await bank.update(ids, mode=mode, by=visit.caller, conn=conn)
        return batch

    await submitted(request, "batch", [await done(visit, begin, new=ids is None)])


def _mode(said: dict[str, str]) -> UpdateMode:
    return UpdateMode.IPCA if said.get("mode") == "IPCA" else UpdateMode.MARKET


@router.post("/{id}/modo")
@needs("operate", limited=True, streamed=True)
async def set_vehicle_mode(id: Number, bank: Bank, visit: Here, request: Request) -> Response:
    """How the price of a vehicle is brought up to date from now on."""
    said = (await fields_of(request, largest=LARGEST_FORM)).get("mode", "")
    mode = UpdateMode(said) if said in set(UpdateMode) else None
    await done(visit, lambda conn: bank.set_mode(id, mode, conn=conn))
    return led(request, f"/banco/{id}?dito=mode")


@router.post("/{id}/preco")
@needs("operate", limited=True, streamed=True)
async def set_vehicle_price(id: Number, bank: Bank, visit: Here, request: Request) -> Response:
    """What a vehicle is worth, as a person says it."""
    said = {"price": "", "reason": "", **await fields_of(request, largest=LARGEST_FORM)}

    async def act(conn: Any) -> object:
        return await bank.set_price(id, price_of(said["price"]), reason=said["reason"], by=visit.caller, conn=conn)

    try:
        await done(visit, act)
    except ConfigurationError:
        visit.unchanged = True
        return await _vehicle(bank, request, id, wrong="price", given=said, status=_UNFIT)
    return led(request, f"/banco/{id}?dito=price")


@router.post("/decisoes/{update}/{word}")
@needs("operate", limited=True, streamed=True)
async def decide_update(
    update: Annotated[Id, Path()],
    word: Annotated[Literal["aceitar", "recusar"], Path()],
    bank: Bank,
    visit: Here,
    request: Request,
) -> Response:
    """Say whether an update holds."""
    said = {"reason": "", **await fields_of(request, largest=LARGEST_FORM)}
    accept = word == "aceitar"
    try:
        await done(
            visit, lambda conn: bank.decide(update, accept=accept, reason=said["reason"], by=visit.caller, conn=conn)
        )
    except ConfigurationError:
        visit.unchanged = True
        return await _page(bank, request, wrong="reason", status=_UNFIT)
    except Conflict:
        visit.unchanged = True
        return await _page(bank, request, wrong="conflict", status=_CONFLICT)
    return led(request, f"/banco?dito={'accepted' if accept else 'refused'}")
