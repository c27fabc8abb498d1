"""Vehicles: the price bank of the house, then the FIPE table; whoever is in neither is searched for in shops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from retoma.app.fetch import fetch
from retoma.pipelines.quotes import bank, bank_updates, sources
from retoma.pipelines.quotes.bank_values import BankVehicle, NewUpdate, UpdateMode, away
from retoma.pipelines.quotes.choosing import price_refusal
from retoma.pipelines.quotes.extraction import keep
from retoma.pipelines.quotes.model import Terms
from retoma.pipelines.quotes.ports import (
    Analysis,
    Evidence,
    FipeWanted,
    Market,
    Method,
    Offer,
    PriceSource,
    Refusal,
    SourceKind,
)
from retoma.pipelines.quotes.pricing.correction import calculation
from retoma.pipelines.quotes.pricing.domains import domain_of
from retoma.pipelines.quotes.progress import Connection, Working
from retoma.pipelines.quotes.sources import Tested
from retoma.pipelines.quotes.stages import ProcessingCheckpoint

_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """What a vehicle is worth; with a *review* a person decides whether it is."""

    found: Tested
    review: str | None = None


async def priced(quote: Working, market: Market, analysis: Analysis) -> Priced | None:
    """The price of a vehicle, saved as the quote's source; None when nobody knows one."""
    wanted = analysis.fipe_api or FipeWanted(marca=analysis.marca, modelo=analysis.modelo)
    await quote.reach(ProcessingCheckpoint.FIPE_SEARCH, "checking_price_bank")
    known = await quote.run.transact("bank", _known, wanted, quote.terms.vehicle_validity_months)
    if not quote.terms.use_price_bank:
        known = None
    mode = None if known is None or known.fresh else UpdateMode(known.update_mode or quote.terms.bank_update)
    if known is not None and mode is not UpdateMode.MARKET:
        await quote.note("using_cached_price", codigo_fipe=known.codigo_fipe)
        return await _of_bank(quote, known, mode)
    tables = [
        (source, query)
        for source in market.sources
        if source.kind is SourceKind.TABLE and (query := source.query_for(analysis)) is not None
    ]
    if tables:
        await quote.note("searching_fipe", query=tables[0][1])
    for source, query in tables:
        answer = await quote.run.search(f"search/{source.provider}", source, query, limit=10, timeout=_SECONDS)
        offer = best(source.read(answer), wanted, quote.terms)
        if offer is None:
            continue
        evidence = await quote.run.step(
            f"evidence/{source.provider}", keep, market.pages, answer.raw, f"{source.provider}:{query}"
        )
        await quote.note("processing_fipe_result", title=offer.title)
        found = from_table(offer, source, evidence)
        return await _of_table(quote, known, found, wanted.vehicle_type)
    return None


async def _of_bank(quote: Working, known: BankVehicle, mode: UpdateMode | None) -> Priced:
    """The price of the bank: as it is where it is young or to be left alone, corrected, or left to a person."""
    if mode is UpdateMode.IPCA:
        return Priced(found=await quote.run.transact("vehicle", _corrected, quote.id, known))
    found = _from_bank(known)
    if mode is not UpdateMode.MANUAL:
        await quote.run.transact("vehicle", _saved, quote.id, found, None)
        return Priced(found=found)
    new = NewUpdate(vehicle_id=known.id, mode=UpdateMode.MANUAL, before=known.price, quote_id=quote.id)
    await quote.run.transact("vehicle", _left_to_a_person, quote.id, [found], new)
    day = known.updated_at.date()
    return Priced(found=found, review=f"bank_manual: the price of the bank is of {day}, and a person says what it is.")


async def _of_table(quote: Working, known: BankVehicle | None, found: Tested, vehicle_type: str) -> Priced:
    """The price of the table, which the bank takes over; too far from what the bank had, a person decides first."""
    limit = quote.terms.bank_tolerance_percent
    if known is None or found.price is None or found.detail.get("codigo_fipe") != known.codigo_fipe:
        await quote.run.transact("vehicle", _saved, quote.id, found, vehicle_type)
        return Priced(found=found)
    far = away(known.price, found.price)
    new = NewUpdate(
        vehicle_id=known.id,
        mode=UpdateMode.MARKET,
        before=known.price,
        after=found.price,
        reference_month=found.detail.get("mes_referencia") or None,
        evidence=found.evidence,
        detail={"desvio_percentual": f"{far}", "tolerancia_percentual": f"{limit}"},
        quote_id=quote.id,
    )
    if far <= limit:
        await quote.run.transact("vehicle", _updated, quote.id, found, new)
        return Priced(found=found)
    told = f"The price bank says {known.price} of {known.updated_at.date()}; {found.price} is {far} % away."
    before = replace(_from_bank(known), reason=str(Refusal.TOO_OLD), message=told)
    await quote.run.transact("vehicle", _left_to_a_person, quote.id, [found, before], new)
    return Priced(
        found=found,
        review=f"bank_tolerance: {found.price} is {far} % away from {known.price} of the price bank, and {limit} % is "
        "the limit. A person decides.",
    )


def best(offers: Sequence[Offer], wanted: FipeWanted, terms: Terms) -> Offer | None:
    """The first of the right year and code whose price can be one."""
    for offer in offers:
        year = offer.detail.get("ano")
        code = offer.detail.get("codigo_fipe")
        if wanted.ano is not None and year is not None and year != str(wanted.ano):
            continue
        if wanted.codigo_fipe is not None and code is not None and code != wanted.codigo_fipe:
            continue
        if price_refusal(offer.price, offer.currency, terms) is None and offer.refused is None:
            return offer
    return None


def _from_bank(known: BankVehicle) -> Tested:
    # The evidence is that of the day on which the price was looked up.
    evidence = (
        Evidence(
            url=f"bank:{known.id}",
            sha256=known.evidence_sha256,
            blob=known.evidence_blob,
            captured_at=known.updated_at,
            kind="application/json",
        )
        if known.evidence_blob and known.evidence_sha256
        else None
    )
    return Tested(
        key=f"bank/{known.codigo_fipe}/{known.ano}",
        kind=str(SourceKind.BANK),
        provider="bank",
        title=f"{known.marca} {known.modelo} {known.ano} {known.combustivel or ''}".strip(),
        listed_price=known.price,
        price=known.price,
        dated=known.updated_at,
        method=str(Method.PRICE_BANK),
        evidence=evidence,
        detail={
            "codigo_fipe": known.codigo_fipe,
            "ano": str(known.ano),
            "mes_referencia": known.reference_month or "",
            # So that a price that the index made in the bank can be derived again from the table.
            **(known.calculation or {}),
        },
    )


def from_table(offer: Offer, source: PriceSource, evidence: Evidence) -> Tested:
    """The price of the table, as a source."""
    return Tested(
        key=offer.key,
        kind=str(offer.kind),
        provider=offer.source,
        title=offer.title,
        seller=offer.seller,
        url=offer.url,
        domain=offer.domain or domain_of(offer.url or "") or None,
        listed_price=offer.price,
        price=offer.price,
        currency=offer.currency,
        dated=offer.dated,
        method=str(source.method),
        evidence=evidence,
        detail=dict(offer.detail),
    )


async def _known(connection: Connection, wanted: FipeWanted, months: int) -> BankVehicle | None:
    words = bank.words_of(wanted.marca, wanted.modelo)
    query = bank.find(
        ano=wanted.ano,
        codigo_fipe=wanted.codigo_fipe,
        words=words if wanted.marca and wanted.modelo else [],
        combustivel=wanted.combustivel,
        months=months,
    )
    rows = await fetch(connection, query)
    return rows[0] if rows else None


async def _corrected(connection: Connection, id: int, known: BankVehicle) -> Tested:
    """The price of the bank in money of today: a source of the quote, and the bank's price from now on."""
    told, table = await bank_updates.corrected(connection, known)
    memory = calculation(told, table)
    today = datetime.now(UTC)
    plain = _from_bank(known)
    found = replace(plain, price=told.corrected, dated=today, detail={**plain.detail, **memory})
    await fetch(connection, sources.save(id, found))
    new = NewUpdate(
        vehicle_id=known.id,
        mode=UpdateMode.IPCA,
        before=known.price,
        after=told.corrected,
        detail=memory,
        quote_id=id,
    )
    await bank_updates.applied(connection, new)
    return found


async def _updated(connection: Connection, id: int, found: Tested, new: NewUpdate) -> int:
    """The source of the quote, and the bank's price from now on."""
    await fetch(connection, sources.save(id, found))
    await bank_updates.applied(connection, new)
    return id


async def _left_to_a_person(connection: Connection, id: int, given: list[Tested], new: NewUpdate) -> int:
    """The sources of the quote, and what a person decides about the bank with it."""
    for each in given:
        await fetch(connection, sources.save(id, each))
    await bank_updates.asked(connection, new)
    return id


async def _saved(connection: Connection, id: int, found: Tested, vehicle_type: str | None) -> int:
    """The source of the quote, and the bank's own row where it is new there."""
    await fetch(connection, sources.save(id, found))
    row = _bank_row(found)
    if vehicle_type is not None and row is not None:
        await fetch(connection, bank.put(**row, vehicle_type=vehicle_type, quote_id=id))
    return id


def _bank_row(found: Tested) -> dict[str, Any] | None:
    told = found.detail
    if found.price is None or not all(told.get(each) for each in ("codigo_fipe", "ano", "marca", "modelo")):
        return None
    if not told["ano"].isdecimal():
        return None
    return {
        "codigo_fipe": told["codigo_fipe"],
        "ano": int(told["ano"]),
        "marca": told["marca"],
        "modelo": told["modelo"],
        "combustivel": told.get("combustivel") or None,
        "price": found.price,
        "reference_month": told.get("mes_referencia") or None,
        "evidence_blob": found.evidence.blob if found.evidence else None,
        "evidence_sha256": found.evidence.sha256 if found.evidence else None,
    }
