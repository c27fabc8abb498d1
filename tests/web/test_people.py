"""People: they sign in with a name and a password, may do what their role allows, and are sent away after failures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import psycopg
import pytest
from argon2 import PasswordHasher

from retoma.app.access.people import FREE_BY_NAME, People, User

from .conftest import House, Open, code

PASSWORD = "three words are enough"
PAGE = {"Accept": "text/html"}


def add(house: House, name: str = "ana", role: str = "operator", password: str = PASSWORD) -> Any:
    return house.ask(lambda app: app.access.people.add(name, role, password=password))


BROWSERS: list[httpx2.Client] = []


@pytest.fixture(autouse=True)
def closed_browsers() -> Iterator[None]:
    yield
    while BROWSERS:
        BROWSERS.pop().close()


def browser(house: House) -> httpx2.Client:
    BROWSERS.append(httpx2.Client(base_url=house.url, headers=PAGE, timeout=240))
    return BROWSERS[-1]


def sign_in(client: httpx2.Client, name: str = "ana", password: str = PASSWORD) -> httpx2.Response:
    return client.post("/login", data={"name": name, "password": password})


def signed(house: House, name: str = "ana", password: str = PASSWORD) -> httpx2.Client:
    client = browser(house)
    assert sign_in(client, name, password).status_code == 303
    return client


@pytest.fixture
def house(open_house: Open) -> House:
    return open_house()


def test_a_person_signs_in_and_may_do_what_the_role_allows(house: House) -> None:
    add(house, "rui", "reader")
    add(house)
    reader, operator = signed(house, "rui"), signed(house, " ANA ")

    assert reader.get("/api/v1/jobs").status_code == operator.get("/api/v1/jobs").status_code == 200
    assert code(reader.post("/api/v1/queues/q/pause")) == (403, "scope_required")
    assert operator.post("/api/v1/queues/q/pause").status_code < 300
    assert code(operator.get("/api/v1/users")) == (403, "scope_required")
    newest = house.ask(lambda app: app.audit.page(action="queue.pause"))[0]
    assert (newest.name, newest.outcome) == ("ana", "done")


def test_a_server_with_accounts_shows_the_form_for_them_and_is_not_opened_by_the_token(house: House) -> None:
    before = browser(house).get("/login").text
    add(house)

    after = browser(house).get("/login").text

    assert 'name="password"' not in before
    assert 'name="password"' in after
    assert 'name="key"' in after
    assert house.get("/jobs").status_code == 401


def test_a_wrong_name_and_a_wrong_password_are_told_alike_and_written_down(house: House) -> None:
    add(house)

    wrong = [sign_in(browser(house), *each) for each in (("ana", "not this one at all"), ("eva", PASSWORD))]

    told = [re.sub(r'value="(ana|eva)"', "", answer.text) for answer in wrong]
    assert [answer.status_code for answer in wrong] == [401, 401]
    assert told[0] == told[1]
    assert "not this one at all" not in told[0]


def test_after_failures_a_name_must_wait_whether_it_exists_or_not(house: House, psql: psycopg.Connection) -> None:
    add(house)
    for name in ("ana", "eva"):
        answers = [sign_in(browser(house), name, "not this one at all") for _ in range(FREE_BY_NAME + 1)]

        assert [answer.status_code for answer in answers] == [401] * FREE_BY_NAME + [429]
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 30
        assert "Tentativas demais de entrar" in answers[-1].text
    # Also the right password has to wait; the failures are counted in the database, for all processes.
    assert sign_in(browser(house)).status_code == 429
    psql.execute("update retoma.tries set refused_until = now()")
    assert sign_in(browser(house)).status_code == 303
    assert psql.execute("select count(*) from retoma.tries where subject like 'name:%'").fetchone() == (1,)


def test_an_address_that_fails_with_many_names_must_wait(house: House, psql: psycopg.Connection) -> None:
    add(house)
    psql.execute("insert into retoma.tries (subject, failures) values ('address:127.0.0.1', 19)")

    assert sign_in(browser(house), "eva").status_code == 401
    refused = sign_in(browser(house))

    assert refused.status_code == 429
    # And locks no account by what it tries while it waits.
    assert psql.execute("select count(*) from retoma.tries where subject like 'name:%'").fetchone() == (1,)


def test_of_many_guesses_at_the_same_moment_no_more_are_compared_than_one_after_the_other(house: House) -> None:
    add(house)

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: sign_in(browser(house), "ana", "not this one at all").status_code, range(12)))

    assert answers.count(401) <= FREE_BY_NAME
    assert set(answers) == {401, 429}


def test_what_is_taken_from_an_account_ends_its_sessions(house: House) -> None:
    for name in ("role", "password", "lock", "remove"):
        user = add(house, name)
        client = signed(house, name)
        assert client.get("/api/v1/jobs").status_code == 200

        house.ask(lambda app, user=user: taken(app.access.people, user))

        assert code(client.get("/api/v1/jobs", headers={"Accept": "*/*"})) == (401, "auth_invalid")
        assert sign_in(browser(house), name).status_code == (303 if name == "role" else 401)


async def taken(people: People, user: User) -> None:
    match user.name:
        case "role":
            await people.change_role(user.id, "admin")
        case "password":
            await people.change_password(user.id, "other words are enough")
        case "lock":
            await people.lock(user.id)
        case _:
            await people.remove(user.id)


def test_a_locked_account_is_let_in_after_it_was_unlocked(house: House) -> None:
    user = add(house)
    house.ask(lambda app: app.access.people.lock(user.id))
    assert sign_in(browser(house)).status_code == 401

    house.ask(lambda app: app.access.people.unlock(user.id))

    assert sign_in(browser(house)).status_code == 303


@pytest.mark.usefixtures("real_passwords")
def test_a_hash_of_older_parameters_is_made_again_at_the_next_sign_in(house: House, psql: psycopg.Connection) -> None:
    add(house)
    psql.execute("update retoma.users set password_hash = %s", [PasswordHasher(1, 1024, 1).hash(PASSWORD)])

    assert sign_in(browser(house)).status_code == 303

    [[kept]] = psql.execute("select password_hash from retoma.users").fetchall()
    assert not PasswordHasher().check_needs_rehash(kept)
    assert sign_in(browser(house)).status_code == 303


def test_the_table_holds_an_argon2_hash_and_no_password(house: House, psql: psycopg.Connection) -> None:
    add(house)

    [[row]] = psql.execute("select u::text from retoma.users as u").fetchall()

    assert "$argon2id$" in row
    assert PASSWORD not in row


UNFIT = (
    ("", "admin", PASSWORD),
    ("a b", "admin", PASSWORD),
    ("ana", "king", PASSWORD),
    ("ana", "admin", "brief"),
    ("ana", "admin", "x" * 201),
    ("ana", "admin", "aaaaaaaaaaaaaaaa"),
    ("maria", "admin", "maria-maria-maria"),
)


def test_what_no_account_may_be_is_refused_in_words(house: House) -> None:
    for name, role, password in UNFIT:
        refused = house.post("/users", {"name": name, "role": role, "password": password})

        assert refused.status_code == 422, (name, role, password)
        assert refused.json()["detail"]
        assert password not in refused.text


# — over the API —


@pytest.fixture
def admin(house: House) -> httpx2.Client:
    add(house, "root", "admin")
    return signed(house, "root")


def test_accounts_are_added_changed_and_removed_over_the_api(house: House, admin: httpx2.Client) -> None:
    made = admin.post("/api/v1/users", json={"name": "eva", "role": "reader", "password": PASSWORD})
    id = made.json()["id"]

    assert made.status_code == 201
    assert "password" not in made.json()
    assert code(admin.post("/api/v1/users", json={"name": "eva", "role": "reader", "password": PASSWORD})) == (
        409,
        "conflict",
    )
    for path, body in (
        ("role", {"role": "reviewer"}),
        ("password", {"password": "other words are enough"}),
        ("lock", None),
        ("unlock", None),
    ):
        assert admin.post(f"/api/v1/users/{id}/{path}", **({"json": body} if body else {})).status_code == 204
    assert [each["role"] for each in admin.get("/api/v1/users").json()["users"]] == ["reviewer", "admin"]
    assert admin.delete(f"/api/v1/users/{id}").status_code == 204
    assert code(admin.post(f"/api/v1/users/{id}/lock")) == (404, "not_found")
    told = {row.action for row in house.ask(lambda app: app.audit.page(object=f"user:{id}"))}
    assert told == {"user.add", "user.change", "user.lock", "user.unlock", "user.remove"}


def test_nobody_takes_their_own_rights_away(admin: httpx2.Client) -> None:
    [own] = admin.get("/api/v1/users").json()["users"]

    refused = [
        admin.post(f"/api/v1/users/{own['id']}/lock"),
        admin.post(f"/api/v1/users/{own['id']}/role", json={"role": "reader"}),
        admin.delete(f"/api/v1/users/{own['id']}"),
    ]

    assert [code(answer) for answer in refused] == [(409, "conflict")] * 3


def test_a_secret_and_a_password_are_kept_with_no_reply(admin: httpx2.Client, psql: psycopg.Connection) -> None:
    once = {"Idempotency-Key": "k"}
    key = admin.post("/api/v1/keys", json={"name": "p", "scopes": ["read"]}, headers=once)
    admin.post("/api/v1/users", json={"name": "eva", "role": "reader", "password": PASSWORD}, headers=once)

    assert key.headers["cache-control"] == "no-store"
    assert psql.execute("select count(*) from retoma.replies").fetchone() == (0,)


def test_keys_are_made_rotated_and_revoked_over_the_api(house: House, admin: httpx2.Client) -> None:
    made = admin.post("/api/v1/keys", json={"name": "p", "scopes": ["read"], "expires_days": 30}).json()
    key = {"Authorization": f"Bearer {made['secret']}"}
    assert house.get("/jobs", headers=key).status_code == 200

    rotated = admin.post(f"/api/v1/keys/{made['id']}/rotate", json={"grace_hours": 0}).json()

    assert house.get("/jobs", headers=key).status_code == 401
    assert house.get("/jobs", headers={"Authorization": f"Bearer {rotated['secret']}"}).status_code == 200
    assert admin.post(f"/api/v1/keys/{made['id']}/revoke").status_code == 204
    [listed] = admin.get("/api/v1/keys").json()["keys"]
    assert (listed["id"], listed["usable"]) == (made["id"], False)
    assert "secret" not in listed


def test_sessions_are_listed_and_ended_over_the_api(house: House, admin: httpx2.Client) -> None:
    add(house)
    client = signed(house)
    [session] = [each for each in admin.get("/api/v1/sessions").json()["sessions"] if each["name"] == "ana"]

    assert admin.post(f"/api/v1/sessions/{session['id']}/end").status_code == 204

    assert code(client.get("/api/v1/jobs", headers={"Accept": "*/*"})) == (401, "auth_invalid")


# — on the page —


def test_the_page_adds_a_person_and_makes_a_key_that_is_shown_once(house: House, admin: httpx2.Client) -> None:
    added = admin.post("/console/access/users", data={"name": "eva", "role": "reviewer", "password": PASSWORD})
    made = admin.post("/console/access/keys", data={"name": "robô", "scope:read": "on", "days": "30"})

    assert added.status_code == 303
    assert sign_in(browser(house), "eva").status_code == 303
    [text] = re.findall(r"rtm_[0-9a-f]{12}_[\w-]{40,}", made.text)
    assert house.get("/jobs", headers={"Authorization": f"Bearer {text}"}).status_code == 200
    assert made.headers["cache-control"] == "no-store"
    again = admin.get("/console/access?show=keys").text
    assert "robô" in again
    assert text not in again


def test_what_a_form_cannot_do_is_told_above_it_and_what_was_typed_stays(admin: httpx2.Client) -> None:
    refused = admin.post("/console/access/users", data={"name": "eva", "role": "reviewer", "password": "short"})

    assert refused.status_code == 422
    assert 'value="eva"' in refused.text
    assert "short" not in re.sub(r"<[^>]*>", "", refused.text)


def test_the_page_is_for_admins_and_its_forms_take_nothing_from_other_sites(house: House, admin: httpx2.Client) -> None:
    add(house)
    operator = signed(house)

    assert operator.get("/console/access").status_code == 403
    assert operator.post("/console/access/users", data={"name": "x"}).status_code == 403
    forged = admin.post("/console/access/keys", data={"name": "x"}, headers={"Sec-Fetch-Site": "cross-site"})
    assert forged.status_code in (401, 403, 303)
    assert admin.get("/api/v1/keys").json()["keys"] == []
