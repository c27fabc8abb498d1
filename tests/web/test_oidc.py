"""Signing in with an OpenID provider: a real one on loopback, and every token that must not let anybody in."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from retoma.app.access import oidc

from .conftest import House, Open

sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))

from oidc_provider import CLIENT, SECRET, Provider, _key, providing

PAGE = {"Accept": "text/html"}


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as provider:
        provider.claims["groups"] = ["staff", "retoma-operators"]
        yield provider


@pytest.fixture
def house(open_house: Open, provider: Provider) -> House:
    return open_house(
        api_key="d2hvZXZlciBob2xkcyB0aGlzIG1heSBkbyBhbGw5",  # so that being on this machine opens nothing
        oidc_issuer=provider.issuer,
        oidc_client_id=CLIENT,
        oidc_client_secret=SECRET,
        oidc_roles="retoma-operators=operator,retoma-admins=admin",
    )


@pytest.fixture
def browser(house: House) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=house.url, headers=PAGE, timeout=240) as client:
        yield client


def sent(browser: httpx2.Client, provider: Provider) -> str:
    """Where the browser comes back to, once the person has signed in there."""
    begun = browser.get("/login/oidc?next=/console/access")
    assert begun.status_code == 303
    return provider.signed_in(begun.headers["location"])


def let_in(browser: httpx2.Client) -> bool:
    return browser.get("/api/v1/jobs", headers={"Accept": "*/*"}).status_code == 200


def test_a_person_of_the_provider_gets_an_account_with_the_role_of_their_group(
    house: House, browser: httpx2.Client, provider: Provider
) -> None:
    assert "/login/oidc" in browser.get("/login").text

    back = browser.get(sent(browser, provider))

    assert back.status_code == 200
    assert "url=/console/access" in back.text
    assert let_in(browser)
    [user] = house.ask(lambda app: app.access.people.all())
    assert (user.name, user.role, user.issuer, user.has_password) == ("ana", "operator", provider.issuer, False)
    # The provider's word counts at each sign-in.
    provider.claims["groups"] = ["retoma-admins"]
    browser.get(sent(browser, provider))
    assert [each.role for each in house.ask(lambda app: app.access.people.all())] == ["admin"]


def test_a_state_and_a_code_are_good_once_and_for_one_browser(
    house: House, browser: httpx2.Client, provider: Provider
) -> None:
    back = sent(browser, provider)
    with httpx2.Client(base_url=house.url, headers=PAGE, timeout=240) as other:
        assert other.get(back).status_code == 401
        assert not let_in(other)
    assert browser.get(back).status_code == 401, "the other browser has used it up"

    back = sent(browser, provider)
    assert browser.get(back).status_code == 200
    browser.post("/logout")
    assert browser.get(back).status_code == 401
    assert not let_in(browser)


def test_no_token_that_does_not_fit_lets_anybody_in(house: House, browser: httpx2.Client, provider: Provider) -> None:
    now = int(time.time())
    wrong = [
        {"nonce": "other"}, {"aud": "other"}, {"aud": [CLIENT, "other"]}, {"iss": "https://other"},
        {"exp": now - 3600}, {"exp": None}, {"sub": ""}, {"groups": ["retoma-adminsx"]}, {"groups": None},
    ]  # fmt: skip
    for changed in wrong:
        provider.changed = changed
        assert browser.get(sent(browser, provider)).status_code == 401, changed
        assert not let_in(browser), changed
    provider.changed = {}
    provider.signing = _key()
    assert browser.get(sent(browser, provider)).status_code == 401, "signed by another"

    assert house.ask(lambda app: app.access.people.all()) == []


def test_a_key_that_the_provider_has_rotated_is_fetched(
    browser: httpx2.Client, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert browser.get(sent(browser, provider)).status_code == 200
    monkeypatch.setattr(oidc, "_AGAIN", 0.0)

    provider.rotate()

    assert browser.get(sent(browser, provider)).status_code == 200


def test_a_locked_account_and_a_name_of_another_account_are_refused(
    house: House, browser: httpx2.Client, provider: Provider
) -> None:
    house.ask(lambda app: app.access.people.add("ana", "reader", password="three words are enough"))
    assert browser.get(sent(browser, provider)).status_code == 401

    provider.claims["preferred_username"] = "eva"
    assert browser.get(sent(browser, provider)).status_code == 200
    eva = house.ask(lambda app: app.access.people.get("eva"))
    house.ask(lambda app: app.access.people.lock(eva.id))

    assert not let_in(browser)
    assert browser.get(sent(browser, provider)).status_code == 401


def test_a_provider_that_does_not_answer_is_told_at_the_form(open_house: Open) -> None:
    house = open_house(oidc_issuer="http://127.0.0.1:9", oidc_client_id=CLIENT)
    with httpx2.Client(base_url=house.url, headers=PAGE, timeout=240) as browser:
        assert browser.get("/login/oidc").status_code == 401
