"""The price bank, as queries."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal

from retoma.pipelines.quotes.model import BankVehicle
from retoma.store.query import Query, array, load

SQL = load("retoma.pipelines.quotes.queries", "bank.sql")

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


def page(*, before: int | None = None, limit: int = 100) -> Query[BankVehicle]:
    return Query(SQL["page"], BankVehicle, {"before": before, "limit": limit})
