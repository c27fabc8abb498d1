"""The price bank and its updates, as queries."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal

from retoma.pipelines.quotes.bank_values import BankUpdate, BankVehicle, NewUpdate, UpdateMode, UpdateState
from retoma.pipelines.quotes.progress import as_json
from retoma.store.query import Query, array, load

SQL = load("retoma.pipelines.quotes.queries", "bank.sql")

USUAL_MONTHS = 6
"""How old a price may be, where no project says."""
_WORD = re.compile(r"[a-z0-9]+(?:\.[0-9]+)?")


def words_of(*texts: str | None) -> list[str]:
    """The words of brand and model as they are compared: small letters, no accents, each once."""
    plain = unicodedata.normalize("NFKD", " ".join(each for each in texts if each)).encode("ascii", "ignore").decode()
    return sorted(set(_WORD.findall(plain.lower())))


def put(
    *,
    codigo_fipe: str,
    ano: int,
    marca: str,
    modelo: str,
    price: Decimal,
    quote_id: int | None,
    combustivel: str | None = None,
    vehicle_type: str = "cars",
    reference_month: str | None = None,
    evidence_blob: str | None = None,
    evidence_sha256: str | None = None,
) -> Query[int]:
    params = {
        "codigo_fipe": codigo_fipe,
        "ano": ano,
        "marca": marca,
        "modelo": modelo,
        "combustivel": combustivel,
        "vehicle_type": vehicle_type,
        "words": array(words_of(marca, modelo)),
        "price": price,
        "reference_month": reference_month,
        "evidence_blob": evidence_blob,
        "evidence_sha256": evidence_sha256,
        "quote_id": quote_id,
    }
    return Query(SQL["put"], int, params)


def find(
    *, ano: int | None, codigo_fipe: str | None, words: Sequence[str], combustivel: str | None, months: int
) -> Query[BankVehicle]:
    params = {
        "ano": ano,
        "codigo_fipe": codigo_fipe,
        "words": array(list(words)),
        "combustivel": combustivel,
        "months": months,
    }
    return Query(SQL["find"], BankVehicle, params)


def page(
    *, id: int | None = None, before: int | None = None, months: int = USUAL_MONTHS, limit: int = 100
) -> Query[BankVehicle]:
    return Query(SQL["page"], BankVehicle, {"id": id, "before": before, "months": months, "limit": limit})


def hold(id: int) -> Query[Decimal]:
    return Query(SQL["hold"], Decimal, {"id": id})


def reprice(
    id: int,
    price: Decimal,
    *,
    reference_month: str | None = None,
    evidence_blob: str | None = None,
    evidence_sha256: str | None = None,
    quote_id: int | None = None,
) -> Query[int]:
    params = {
        "id": id,
        "price": price,
        "reference_month": reference_month,
        "evidence_blob": evidence_blob,
        "evidence_sha256": evidence_sha256,
        "quote_id": quote_id,
    }
    return Query(SQL["reprice"], int, params)


def set_mode(id: int, mode: UpdateMode | None) -> Query[int]:
    return Query(SQL["set_mode"], int, {"id": id, "mode": None if mode is None else str(mode)})


def put_update(new: NewUpdate, state: UpdateState) -> Query[int]:
    params = {
        "vehicle_id": new.vehicle_id,
        "mode": str(new.mode),
        "state": str(state),
        "price_before": new.before,
        "price_after": new.after,
        "reference_month": new.reference_month,
        "evidence_blob": new.evidence.blob if new.evidence else None,
        "evidence_sha256": new.evidence.sha256 if new.evidence else None,
        "detail": as_json(new.detail),
        "quote_id": new.quote_id,
        "job_id": new.job_id,
        "by": new.by,
        "reason": new.reason,
    }
    return Query(SQL["put_update"], int, params)


def updates(
    *,
    id: int | None = None,
    vehicle_id: int | None = None,
    quote_id: int | None = None,
    state: UpdateState | None = None,
    limit: int = 100,
) -> Query[BankUpdate]:
    params = {
        "id": id,
        "vehicle_id": vehicle_id,
        "quote_id": quote_id,
        "state": None if state is None else str(state),
        "limit": limit,
    }
    return Query(SQL["updates"], BankUpdate, params)


def decide_update(id: int, state: UpdateState, *, price: Decimal | None, reason: str, by: str) -> Query[int]:
    params = {"id": id, "state": str(state), "price": price, "reason": reason, "by": by}
    return Query(SQL["decide_update"], int, params)
