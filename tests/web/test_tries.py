"""Wrong keys: an address that tries too many is sent away for the rest of the minute, and nobody else is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from retoma.app.access.audit import Entry
from retoma.telemetry import Event, listen
from retoma.telemetry.events import TriesRefused
from retoma.web.http import auth_attempts
from retoma.web.http.auth_attempts import Tries
from retoma.web.http.errors import Refusal

from .conftest import House, Open, code

WRONG = {"Authorization": f"Bearer rtm_{'0' * 12}_{'A' * 43}"}
ENTRY = Entry(who="nobody", via="http", route="GET /x", action="key.refuse", outcome="refused")


def test_after_so_many_wrong_keys_an_address_is_sent_away(open_house: Open) -> None:
    house = open_house(web_tries=5)
    good, unknown = house.key("read"), house.key("read")
    assert house.get("/jobs", headers=good).status_code == 200
    told: list[Event] = []
    end = listen(told.append)

    answers = [code(house.get("/jobs", headers=WRONG)) for _ in range(7)]
    end()

    assert answers == [(401, "auth_invalid")] * 5 + [(429, "too_many_tries")] * 2
    refused = house.get("/jobs", headers=WRONG)
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert refused.headers["ratelimit-policy"] == '"too_many_tries";q=5'
    assert refused.json()["retryable"] is True
    assert len([each for each in told if isinstance(each, TriesRefused)]) == 1
    # Whose key has opened here before is not sent away for what others try; one that was never seen has to wait.
    assert house.get("/jobs", headers=good).status_code == 200
    assert code(house.get("/jobs", headers=unknown)) == (429, "too_many_tries")
    assert house.client.get("/livez").status_code == 200


def test_the_form_counts_with_the_header_and_says_so_in_the_callers_language(open_house: Open) -> None:
    house = open_house(web_tries=3)
    house.key("read")
    for _ in range(3):
        assert house.client.post("/login", data={"key": "wrong"}).status_code == 401

    refused = house.client.post("/login", data={"key": "wrong"}, headers={"Accept": "text/html"})

    assert refused.status_code == 429
    assert "Chaves erradas demais" in refused.text
    assert code(house.get("/jobs", headers=WRONG)) == (429, "too_many_tries")


def test_a_session_that_is_over_locks_nobody_out(open_house: Open) -> None:
    house = open_house(web_tries=2)
    key = house.key("read")
    for _ in range(5):
        assert code(house.get("/jobs", headers={"Cookie": "retoma_session=rts_over"})) == (401, "auth_invalid")

    assert house.get("/jobs", headers=key).status_code == 200


class Book:
    """Stands for the audit: what is written into it can be counted without a minute's wait."""

    def __init__(self) -> None:
        self.rows: list[Entry] = []

    async def write(self, entry: Entry) -> None:
        self.rows.append(entry)


def counted(monkeypatch: pytest.MonkeyPatch, still_house: House, *, most: int) -> tuple[Tries, Book, Any]:
    monkeypatch.setattr(auth_attempts, "MOST_ADDRESSES", most)
    made: Any = type("App", (), {"audit": Book(), "settings": still_house.settings})()
    return Tries(made), made.audit, still_house.settings.web_tries


def test_a_flood_from_everywhere_takes_a_bounded_room(monkeypatch: pytest.MonkeyPatch, still_house: House) -> None:
    async def flooded() -> tuple[int, list[Entry]]:
        room, book, _ = counted(monkeypatch, still_house, most=100)
        for number in range(1000):
            address = f"198.51.{number // 250}.{number % 250}"
            room.wrong(address, Entry(**{**{n: getattr(ENTRY, n) for n in Entry.__slots__}, "address": address}))
        held = len(room._addresses) + len(room._refusals)
        await room.close()
        return held, book.rows

    held, rows = asyncio.run(flooded())

    assert held <= 201
    assert len(rows) <= 101
    assert sum(row.times for row in rows) == 1000


def test_a_whole_network_of_ipv6_is_one_address(monkeypatch: pytest.MonkeyPatch, still_house: House) -> None:
    async def tried() -> None:
        room, _, most = counted(monkeypatch, still_house, most=100)
        for number in range(most):
            room.wrong(f"2001:db8::{number:x}", ENTRY)
        with pytest.raises(Refusal) as refused:
            room.check("2001:db8::ffff", "rtm_x")
        assert refused.value.code == "too_many_tries"
        room.check("2001:db8:1::1", "rtm_x")
        await room.close()

    asyncio.run(tried())
