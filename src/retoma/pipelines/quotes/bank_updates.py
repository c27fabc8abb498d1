"""A price of the bank is brought up to date: each change is written down in the transaction that makes it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from retoma.app.fetch import fetch
from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.model.endings import Reject
from retoma.pipelines.quotes import bank, indices
from retoma.pipelines.quotes.bank_values import BankVehicle, NewUpdate, UpdateState
from retoma.pipelines.quotes.pricing.correction import Corrected, IndexTable, correct, load, missing_month
from retoma.pipelines.quotes.progress import Connection

INDEX = "IPCA"


async def corrected(connection: Connection, vehicle: BankVehicle) -> tuple[Corrected, IndexTable]:
    """The price of *vehicle* in money of today, by the newest table that was loaded."""
    since, until = vehicle.updated_at.date(), datetime.now(UTC).date()
    rows = await fetch(connection, indices.page(index=INDEX, limit=1))
    table = load(rows[0].content) if rows else None
    if table is None or (missing := missing_month(table, since=since, until=until)):
        told = f"the newest table does not know {missing}" if table else "no table of it was loaded"
        raise Reject(
            f"bank_index_missing: the price of {vehicle.marca} {vehicle.modelo} {vehicle.ano} of {since} is to be "
            f"corrected by the {INDEX}, and {told}. Nothing was asked or paid. Load it with retoma quotes indices "
            "load, and try again."
        )
    return correct(vehicle.price, table, since=since, until=until), table


async def applied(connection: Connection, new: NewUpdate) -> int:
    """The price is *new* from now on. A job that was here before changes nothing."""
    if new.after is None:
        raise ConfigurationError("An update that is applied has a price.")
    before = await _held(connection, new.vehicle_id)
    if await fetch(connection, bank.put_update(replace(new, before=before), UpdateState.APPLIED)):
        await _priced(connection, new, new.after)
    return new.vehicle_id


async def asked(connection: Connection, new: NewUpdate) -> int:
    """The update waits for a person; where one waits already it stays the one."""
    await _held(connection, new.vehicle_id)
    await fetch(connection, bank.put_update(new, UpdateState.WAITING))
    return new.vehicle_id


async def decided(
    connection: Connection, id: int, *, accept: bool, price: Decimal | None, reason: str, by: str
) -> None:
    """A person says whether an update holds; *price* is what it comes to, where that is another."""
    rows = await fetch(connection, bank.updates(id=id))
    if not rows:
        raise NotFound(f"There is no update {id} of the price bank.")
    found = rows[0]
    after = price if price is not None else found.price_after
    if accept and after is None:
        raise ConfigurationError("The new price is missing.", next="Say it in reais, as in 1234.56.")
    await _held(connection, found.vehicle_id)
    state = UpdateState.APPLIED if accept else UpdateState.REFUSED
    query = bank.decide_update(id, state, price=price if accept else None, reason=reason, by=by)
    if not await fetch(connection, query):
        raise Conflict(f"Update {id} of the price bank was decided already.", next="Look at how it stands now.")
    if accept and after is not None:
        reprice = bank.reprice(
            found.vehicle_id,
            after,
            reference_month=found.reference_month,
            evidence_blob=found.evidence_blob,
            evidence_sha256=found.evidence_sha256,
            quote_id=found.quote_id,
        )
        await fetch(connection, reprice)


async def settled(connection: Connection, quote_id: int, *, price: Decimal | None, reason: str, by: str) -> None:
    """What a person decided about a quote holds for the update that waits for it; without a *price* it is refused."""
    for each in await fetch(connection, bank.updates(quote_id=quote_id, state=UpdateState.WAITING)):
        await decided(connection, each.id, accept=price is not None, price=price, reason=reason, by=by)


async def _held(connection: Connection, vehicle_id: int) -> Decimal:
    rows = await fetch(connection, bank.hold(vehicle_id))
    if not rows:
        raise NotFound(f"There is no vehicle {vehicle_id} in the price bank.")
    return rows[0]


async def _priced(connection: Connection, new: NewUpdate, price: Decimal) -> None:
    query = bank.reprice(
        new.vehicle_id,
        price,
        reference_month=new.reference_month,
        evidence_blob=new.evidence.blob if new.evidence else None,
        evidence_sha256=new.evidence.sha256 if new.evidence else None,
        quote_id=new.quote_id,
    )
    await fetch(connection, query)
