"""Queries about sign-ins at an OpenID provider."""

from __future__ import annotations

from dataclasses import dataclass

from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "sign_ins.sql")


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that comes back: what its token must say, what proves that we asked, and where it leads. *usable*: it
    comes in time, from the browser that began it.
    """

    nonce: str
    verifier: str
    place: str
    usable: bool


def begin(state_hash: bytes, browser_hash: bytes, *, nonce: str, verifier: str, place: str, lasts: float) -> Query[str]:
    params = {
        "state_hash": state_hash,
        "browser_hash": browser_hash,
        "nonce": nonce,
        "verifier": verifier,
        "place": place,
        "lasts": lasts,
    }
    return Query(SQL["begin"], str, params)


def take(state_hash: bytes, browser_hash: bytes) -> Query[Begun]:
    return Query(SQL["take"], Begun, {"state_hash": state_hash, "browser_hash": browser_hash})


def prune(*, limit: int = 1000) -> Query[str]:
    return Query(SQL["prune"], str, {"limit": limit})
