"""Who signed in: a session of its own, ended by signing out and with its key; streams end with it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import psycopg
import pytest

from retoma.web.http import stream

from .conftest import House, Open, code
from .test_stream import make, read

HTML = {"Accept": "text/html"}


def signed_in(house: House, text: str, **headers: str) -> dict[str, str]:
    """The cookie of a browser that signed in with the key *text*."""
    answered = httpx2.post(f"{house.url}/login", data={"key": text}, headers=HTML | headers)
    assert answered.status_code == 303, answered.text
    return {"Cookie": answered.headers["set-cookie"].partition(";")[0]}


def text_of(key: dict[str, str]) -> str:
    return key["Authorization"].removeprefix("Bearer ")


def opens(house: House, cookie: dict[str, str]) -> bool:
    return house.get("/jobs", headers=cookie).status_code == 200


def test_the_cookie_holds_a_session_and_the_table_its_hash(house: House, psql: psycopg.Connection) -> None:
    key = text_of(house.key("read"))
    cookie = signed_in(house, key)["Cookie"]

    assert key not in cookie
    [row] = psql.execute("select id, secret_hash, key_id, address from retoma.sessions").fetchall()
    assert cookie.startswith(f"retoma_session=rts_{row[0]}_")
    assert (row[2], row[3]) == (key.split("_")[1], "127.0.0.1")
    assert cookie.rpartition("_")[2].encode() not in row[1]


def test_signing_out_ends_the_session_for_whoever_has_it(house: House) -> None:
    cookie = signed_in(house, text_of(house.key("read")))
    other = signed_in(house, text_of(house.key("read")))
    assert opens(house, cookie)

    left = httpx2.post(f"{house.url}/logout", headers=cookie)

    assert left.status_code == 303
    assert not opens(house, cookie)
    assert opens(house, other)


def test_a_session_ends_with_its_time_and_with_its_key(house: House, psql: psycopg.Connection) -> None:
    first, second, third = (house.key("read") for _ in range(3))
    old, expired, revoked = (signed_in(house, text_of(each)) for each in (first, second, third))
    assert all(opens(house, each) for each in (old, expired, revoked))

    psql.execute("update retoma.sessions set expires_at = now() where key_id = %s", [text_of(first).split("_")[1]])
    psql.execute("update retoma.api_keys set expires_at = now() where id = %s", [text_of(second).split("_")[1]])
    house.ask(lambda app: app.access.revoke(text_of(third).split("_")[1]))

    assert [opens(house, each) for each in (old, expired, revoked)] == [False, False, False]


def test_a_session_of_the_environments_key_ends_when_that_is_another(open_house: Open) -> None:
    before = open_house(api_key="a-long-secret-of-the-environment")
    cookie = signed_in(before, "a-long-secret-of-the-environment")
    assert opens(before, cookie)

    after = open_house(api_key="another-secret-of-the-environment")

    assert not opens(after, cookie)
    assert opens(before, cookie)


def test_behind_tls_the_browser_takes_the_cookie_from_this_host_alone(house: House) -> None:
    key = text_of(house.key("read"))
    secure = {"X-Forwarded-Proto": "https"}

    answered = httpx2.post(f"{house.url}/login", data={"key": key}, headers=secure)

    cookie = answered.headers["set-cookie"]
    assert re.fullmatch(
        r"__Host-retoma_session=rts_\S+; HttpOnly; Max-Age=43200; Path=/; SameSite=strict; Secure", cookie
    )
    assert opens(house, {"Cookie": cookie.partition(";")[0], **secure})
    assert not opens(house, {"Cookie": cookie.partition(";")[0]})


def test_who_is_signed_in_is_listed_and_ended_by_id(house: House) -> None:
    cookie = signed_in(house, text_of(house.key("read")))
    [session] = house.ask(lambda app: app.sessions.all())

    house.ask(lambda app: app.sessions.end(session.id))

    assert not opens(house, cookie)
    assert house.ask(lambda app: app.sessions.all()) == []
    assert [each.id for each in house.ask(lambda app: app.sessions.all(over=True))] == [session.id]


# — streams —


def follow(house: House, id: int, headers: dict[str, str], *, then: Callable[[], Any]) -> list[str]:
    """The names of what a stream tells; *then* happens once it has begun."""
    names: list[str] = []
    asked = {"Accept": "text/event-stream", **headers}
    with httpx2.stream("GET", f"{house.url}/api/v1/batches/{id}/events", headers=asked, timeout=240) as response:
        assert response.status_code == 200, response.read()
        for news in read(response.iter_lines()):
            names.append(news.name if news.name != "closing" else news.data["why"])
            if len(names) == 1:
                then()
    return names


@pytest.mark.parametrize("how", ["key", "session"])
def test_a_stream_ends_with_the_key_or_the_session_it_was_opened_with(
    open_house: Open, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(stream, "LOOKED_AFTER", 0.1)
    house, elsewhere = open_house(), open_house()
    id = make(house)
    key, other = house.key("read"), house.key("read")
    stays: list[list[str]] = []
    begun = threading.Event()
    watching = threading.Thread(target=lambda: stays.append(follow(elsewhere, id, other, then=begun.set)), daemon=True)
    watching.start()
    assert begun.wait(240)

    def end() -> None:
        if how == "key":
            house.ask(lambda app: app.access.revoke(text_of(key).split("_")[1]))
        else:
            [session] = house.ask(lambda app: app.sessions.all())
            house.ask(lambda app: app.sessions.end(session.id))

    # Opened at another server process than the one through which it is taken back.
    names = follow(elsewhere, id, key if how == "key" else signed_in(elsewhere, text_of(key)), then=end)

    assert names[-1] == "signed_out"
    assert stays == []
    house.work()
    watching.join(30)
    assert stays[0][-1] == "end"


def test_a_revoked_key_cannot_open_another_stream(house: House) -> None:
    id, key = make(house), house.key("read")
    house.ask(lambda app: app.access.revoke(text_of(key).split("_")[1]))

    refused = house.get(f"/batches/{id}/events", headers={"Accept": "text/event-stream", **key})

    assert code(refused) == (401, "auth_invalid")
