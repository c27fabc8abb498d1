"""One vehicle of the price bank, brought up to date: looked up again in the table, or corrected by the index.

Each stage is a recorded step, so a job that is killed and begun again asks nobody twice and changes a price once.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from retoma.app.fetch import fetch
from retoma.model.endings import Reject
from retoma.model.retry import Retry
from retoma.pipelines.quotes import bank, bank_updates
from retoma.pipelines.quotes.bank_values import BankVehicle, NewUpdate, UpdateMode, UpdateState, away
from retoma.pipelines.quotes.extraction import keep
from retoma.pipelines.quotes.model import Terms
from retoma.pipelines.quotes.ports import Analysis, Evidence, FipeWanted, Market, SourceKind
from retoma.pipelines.quotes.pricing.correction import calculation
from retoma.pipelines.quotes.progress import Connection
from retoma.pipelines.quotes.stages import QUEUE
from retoma.pipelines.quotes.vehicles import best, from_table
from retoma.run.pipeline import pipeline
from retoma.run.run import Run

_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BankOrder:
    """A vehicle whose price is to be brought up to date, and how; by whom it was asked."""

    vehicle_id: int
    mode: UpdateMode
    tolerance_percent: Decimal
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BankOutcome:
    """What became of a price."""

    vehicle_id: int
    state: UpdateState
    before: Decimal
    after: Decimal


@pipeline(
    "update-bank-vehicle",
    internal=True,
    queue=QUEUE,
    retry=Retry(attempts=5, wait=5.0, factor=2.0),
    timeout=240.0,
)
async def update_bank_vehicle(order: BankOrder, run: Run, *, market: Market | None = None) -> BankOutcome:
    """Bring the price of one vehicle up to date, once."""
    vehicle = await run.transact("vehicle", _vehicle, order.vehicle_id)
    if order.mode is UpdateMode.IPCA:
        return await run.transact("update", _corrected, vehicle, order, run.job)
    if order.mode is not UpdateMode.MARKET:
        raise Reject(f"bank_mode: {order.mode} is for a person, and no work of a machine.")
    if market is None:
        raise Reject("market_missing: this worker has no sources of prices. Pass providers={Market: …} to Retoma.")
    new = await _looked_up(run, market, vehicle, order)
    return await run.transact("update", _held_against, new, order.tolerance_percent)


async def _looked_up(run: Run, market: Market, vehicle: BankVehicle, order: BankOrder) -> NewUpdate:
    wanted = FipeWanted(
        vehicle_type=vehicle.vehicle_type,
        codigo_fipe=vehicle.codigo_fipe,
        marca=vehicle.marca,
        modelo=vehicle.modelo,
        ano=vehicle.ano,
        combustivel=vehicle.combustivel,
    )
    name = f"{vehicle.marca} {vehicle.modelo} {vehicle.ano}"
    analysis = Analysis(
        tipo_processamento="FIPE", nome_canonico=name, marca=vehicle.marca, modelo=vehicle.modelo, fipe_api=wanted
    )
    for source in market.sources:
        query = source.query_for(analysis) if source.kind is SourceKind.TABLE else None
        if query is None:
            continue
        # Never from the store: that the table says something else by now is what is asked for.
        answer = await run.search(f"search/{source.provider}", source, query, limit=10, timeout=_SECONDS, reuse=False)
        offer = best(source.read(answer), wanted, Terms())
        if offer is None:
            continue
        evidence: Evidence = await run.step(
            f"evidence/{source.provider}", keep, market.pages, answer.raw, f"{source.provider}:{query}"
        )
        found = from_table(offer, source, evidence)
        return NewUpdate(
            vehicle_id=vehicle.id,
            mode=UpdateMode.MARKET,
            before=vehicle.price,
            after=found.price,
            reference_month=found.detail.get("mes_referencia") or None,
            evidence=evidence,
            detail={"tabela": source.provider, "consulta": query},
            job_id=run.job,
            by=order.by,
        )
    raise Reject(f"bank_not_found: no table knows {name} ({vehicle.codigo_fipe}) any more. Its price stays as it was.")


async def _vehicle(connection: Connection, id: int) -> BankVehicle:
    rows = await fetch(connection, bank.page(id=id))
    if not rows:
        raise Reject(f"bank_vehicle_gone: there is no vehicle {id} in the price bank.")
    return rows[0]


async def _corrected(connection: Connection, vehicle: BankVehicle, order: BankOrder, job: int) -> BankOutcome:
    told, table = await bank_updates.corrected(connection, vehicle)
    new = NewUpdate(
        vehicle_id=vehicle.id,
        mode=UpdateMode.IPCA,
        before=vehicle.price,
        after=told.corrected,
        detail=calculation(told, table),
        job_id=job,
        by=order.by,
    )
    await bank_updates.applied(connection, new)
    return _outcome(new, UpdateState.APPLIED)


async def _held_against(connection: Connection, new: NewUpdate, limit: Decimal) -> BankOutcome:
    """Apply what is within the limit; what is not waits for a person."""
    far = away(new.before, new.after or new.before)
    new.detail.update(desvio_percentual=f"{far}", tolerancia_percentual=f"{limit}")
    if far > limit:
        await bank_updates.asked(connection, new)
        return _outcome(new, UpdateState.WAITING)
    await bank_updates.applied(connection, new)
    return _outcome(new, UpdateState.APPLIED)


def _outcome(new: NewUpdate, state: UpdateState) -> BankOutcome:
    return BankOutcome(vehicle_id=new.vehicle_id, state=state, before=new.before, after=new.after or new.before)
