"""The application around ours lets people in: its own login, its own users, our scopes."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Annotated

import httpx2
import pytest
from fastapi import FastAPI, Form, Request
from starlette.responses import RedirectResponse, Response

from retoma import Retoma, Settings
from retoma.errors import ConfigurationError
from retoma.web import Principal, site

from .conftest import PIPELINES, code, hosting

SCOPES = {"ana": ["admin"], "rui": ["read"]}
TICKETS: dict[str, str] = {}


async def who(request: Request) -> Principal | None:
    name = TICKETS.get(request.cookies.get("shop", ""))
    return None if name is None else Principal(name, SCOPES[name])


def shop(app: Retoma) -> FastAPI:
    """A program with a login of its own, which has ours under /tasks."""
    own = FastAPI()

    @own.post("/enter")
    async def enter(name: Annotated[str, Form()]) -> Response:
        ticket = secrets.token_urlsafe()
        TICKETS[ticket] = name
        response = RedirectResponse("/tasks/console/", 303)
        response.set_cookie("shop", ticket, httponly=True, samesite="lax")
        return response

    own.mount("/tasks", site(app, rounds=False, auth=who, sign_in="/enter-here"))
    return own


@pytest.fixture
def client(settings: Settings) -> Iterator[httpx2.Client]:
    changed = settings.model_copy(update={"token": "off"})
    with (
        hosting(shop(Retoma(settings=changed, pipelines=PIPELINES))) as url,
        httpx2.Client(base_url=url, timeout=240) as client,
    ):
        yield client


def test_whoever_the_host_knows_may_do_what_it_says_and_is_named_in_the_audit(client: httpx2.Client) -> None:
    client.post("/enter", data={"name": "rui"})
    assert client.get("/tasks/api/v1/jobs").status_code == 200
    assert code(client.post("/tasks/api/v1/queues/q/pause")) == (403, "scope_required")

    client.post("/enter", data={"name": "ana"})
    assert client.post("/tasks/api/v1/queues/q/pause").status_code < 300

    [row] = client.get("/tasks/api/v1/audit?action=queue.pause").json()["audit"]
    assert (row["who"], row["name"]) == ("host:ana", "ana")


def test_whom_the_host_does_not_know_is_refused_also_on_this_machine_without_keys(client: httpx2.Client) -> None:
    assert code(client.get("/tasks/api/v1/jobs")) == (401, "auth_missing")


def test_a_page_sends_whoever_is_not_known_to_the_hosts_own_login(client: httpx2.Client) -> None:
    sent = client.get("/tasks/console/", headers={"Accept": "text/html"})

    assert sent.status_code == 303
    assert sent.headers["location"] == "/enter-here?next=%2Ftasks%2Fconsole%2F"


def test_another_site_changes_nothing_with_the_hosts_cookie(client: httpx2.Client) -> None:
    client.post("/enter", data={"name": "ana"})

    forged = client.post("/tasks/api/v1/queues/q/pause", headers={"Sec-Fetch-Site": "cross-site"})

    assert code(forged) == (403, "cross_site_blocked")


def test_a_scope_that_is_none_is_an_error_of_the_host() -> None:
    with pytest.raises(ConfigurationError, match="no scope everything"):
        Principal("ana", ["everything"])
