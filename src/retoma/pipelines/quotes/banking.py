"""The price bank, for programs: its vehicles, how each price came to be, and how they are brought up to date."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from typing import Any

from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.model.ids import BatchId
from retoma.pipelines.quotes import bank, bank_updates
from retoma.pipelines.quotes.bank_pipeline import BankOrder, update_bank_vehicle
from retoma.pipelines.quotes.bank_values import BankUpdate, BankVehicle, NewUpdate, UpdateMode, UpdateState
from retoma.pipelines.quotes.choosing import price_refusal
from retoma.pipelines.quotes.figures import cents
from retoma.pipelines.quotes.library import Quotes, reason_of
from retoma.pipelines.quotes.model import Terms
from retoma.pipelines.quotes.pricing.money import number
from retoma.values.escaping import cell

MOST_AT_ONCE = 10_000
_PAGE = 500
_BY_MACHINE = (UpdateMode.MARKET, UpdateMode.IPCA)
COLUMNS = ("Código FIPE", "Ano", "Marca", "Modelo", "Combustível", "Preço (R$)", "Referência", "Atualizado em",
           "Modo", "SHA-256 da evidência")  # fmt: skip


class PriceBank(Quotes):
    """What can be asked of the price bank, on an open app."""

    async def vehicle(self, id: int, *, conn: object = None) -> BankVehicle:
        """A vehicle with its price."""
        rows = await self._rows(bank.page(id=id), conn)
        if not rows:
            raise NotFound(f"There is no vehicle {id} in the price bank.")
        return rows[0]

    async def updates(
        self, vehicle_id: int | None = None, *, waiting: bool = False, limit: int = 100, conn: object = None
    ) -> list[BankUpdate]:
        """How prices came to be, the newest first; with *waiting*, only those that a person decides."""
        state = UpdateState.WAITING if waiting else None
        return await self._rows(bank.updates(vehicle_id=vehicle_id, state=state, limit=limit), conn)

    async def set_mode(self, id: int, mode: UpdateMode | None, *, conn: object = None) -> BankVehicle:
        """How the price of a vehicle is brought up to date from now on; None: as its project says."""
        async with self._within(conn) as connection:
            if not await self._rows(bank.set_mode(id, mode), connection):
                raise NotFound(f"There is no vehicle {id} in the price bank.")
            return await self.vehicle(id, conn=connection)

    async def set_price(self, id: int, price: Decimal, *, reason: str, by: str, conn: object = None) -> BankVehicle:
        """What a vehicle is worth, as a person says it; an update that waits for one is refused by that."""
        reason = reason_of(reason)
        if wrong := price_refusal(price, "BRL", Terms()):
            raise ConfigurationError(wrong[1])
        async with self._within(conn) as connection:
            known = await self.vehicle(id, conn=connection)
            for each in await self._rows(bank.updates(vehicle_id=id, state=UpdateState.WAITING), connection):
                await bank_updates.decided(connection, each.id, accept=False, price=None, reason=reason, by=by)
            new = NewUpdate(
                vehicle_id=id, mode=UpdateMode.MANUAL, before=known.price, after=cents(price), by=by, reason=reason
            )
            await bank_updates.applied(connection, new)
            return await self.vehicle(id, conn=connection)

    async def decide(
        self, update_id: int, *, accept: bool, reason: str, by: str, price: Decimal | None = None, conn: object = None
    ) -> BankUpdate:
        """Say whether an update holds that waits for a person. One of a quote is decided with the quote."""
        reason = reason_of(reason)
        if price is not None and (wrong := price_refusal(price, "BRL", Terms())):
            raise ConfigurationError(wrong[1])
        async with self._within(conn) as connection:
            rows = await self._rows(bank.updates(id=update_id), connection)
            if rows and rows[0].quote_id is not None and rows[0].state == UpdateState.WAITING:
                raise ConfigurationError(
                    f"Update {update_id} of the price bank belongs to quote {rows[0].quote_id}.",
                    next="Accept or refuse the quote.",
                )
            told = None if price is None else cents(price)
            await bank_updates.decided(connection, update_id, accept=accept, price=told, reason=reason, by=by)
            return (await self._rows(bank.updates(id=update_id), connection))[0]

    async def update(
        self,
        ids: Sequence[int] | None = None,
        *,
        mode: UpdateMode = UpdateMode.MARKET,
        tolerance_percent: Decimal | None = None,
        by: str,
        conn: object = None,
    ) -> tuple[BatchId, int]:
        """Bring vehicles up to date, all or those of *ids*: a batch of ordinary jobs, and how many they are. A vehicle
        with a mode of its own keeps it; those that are left to a person or left alone are left out.
        """
        if mode not in _BY_MACHINE:
            raise ConfigurationError(f"{mode} is no work of a machine.", next="Choose MARKET or IPCA.")
        limit = Terms().bank_tolerance_percent if tolerance_percent is None else tolerance_percent
        async with self._within(conn) as connection:
            orders = [
                BankOrder(vehicle_id=each.id, mode=chosen, tolerance_percent=limit, by=by)
                for each in await self._chosen(ids, connection)
                if (chosen := UpdateMode(each.update_mode or mode)) in _BY_MACHINE
            ]
            if not orders:
                raise Conflict(
                    "No vehicle of the price bank is to be brought up to date so.",
                    next="Look at the modes of the vehicles.",
                )
            batch = await self.app.batches.open(
                update_bank_vehicle, name="Banco de preços", conn=connection, labels={"bank": str(mode)}
            )
            await self.app.batches.fill(
                batch.id, update_bank_vehicle, orders, key=lambda each: str(each.vehicle_id), conn=connection
            )
            await self.app.batches.seal(batch.id, expected=len(orders), conn=connection)
        return batch.id, len(orders)

    async def _chosen(self, ids: Sequence[int] | None, connection: Any) -> list[BankVehicle]:
        if ids is not None:
            return [await self.vehicle(id, conn=connection) for id in dict.fromkeys(ids)]
        found: list[BankVehicle] = []
        while page := await self._rows(bank.page(before=found[-1].id if found else None, limit=_PAGE), connection):
            found += page
            if len(found) > MOST_AT_ONCE:
                raise ConfigurationError(
                    f"The price bank has more than {MOST_AT_ONCE:,} vehicles.", next="Name those that are meant."
                )
        return found

    async def as_csv(self) -> AsyncIterator[bytes]:
        """The whole bank as a file, piece by piece; with a mark at its start, so that spreadsheets read the accents."""
        yield "\ufeff".encode() + _lines([COLUMNS])
        before: int | None = None
        while page := await self.bank(before=before, limit=_PAGE):
            yield _lines([_row(each) for each in page])
            before = page[-1].id


def price_of(said: str) -> Decimal:
    """A price as people write it; ConfigurationError when it is none."""
    if (found := number(said)) is None:
        raise ConfigurationError(f"{said[:40]!r} is no amount of money.")
    return found


def _row(each: BankVehicle) -> list[Any]:
    told = (
        each.codigo_fipe, each.ano, each.marca, each.modelo, each.combustivel, f"{each.price:.2f}".replace(".", ","),
        each.reference_month, each.updated_at.isoformat(), each.update_mode, each.evidence_sha256,
    )  # fmt: skip
    return [cell(value) for value in told]


def _lines(rows: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=";", quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue().encode()
