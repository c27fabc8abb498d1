"""The client knows every operation of the engine's API, under the address that the description gives it."""

from __future__ import annotations

import pytest

import retoma.web
from retoma import Retoma
from retoma.client.operations import OPERATIONS

_PEOPLE = "people and keys are managed in the console, or with 'retoma user', 'key' and 'session' on the database"
_ENDPOINTS = "endpoints are managed in the console, or with 'retoma webhook' on the machine of the database"
_VIEWS = "a view is the query of a page of the console, and is kept there"
ELSEWHERE: dict[str, str] = {  # operationId: why no client asks for it
    **dict.fromkeys(("listKeys", "createKey", "rotateKey", "revokeKey"), _PEOPLE),
    **dict.fromkeys(("listUsers", "addUser", "changeUserRole", "changeUserPassword"), _PEOPLE),
    **dict.fromkeys(("lockUser", "unlockUser", "removeUser", "listSessions", "endSession"), _PEOPLE),
    **dict.fromkeys(("listWebhooks", "addWebhook", "rotateWebhook", "tryWebhook", "removeWebhook"), _ENDPOINTS),
    **dict.fromkeys(("enableWebhook", "disableWebhook"), _ENDPOINTS),
    **dict.fromkeys(("listDeliveries", "getDelivery", "replayDelivery"), _ENDPOINTS),
    **dict.fromkeys(("listViews", "keepView", "removeView"), _VIEWS),
}


@pytest.fixture(scope="module")
def described() -> dict[str, tuple[str, str]]:
    """Method and path of each operation below /api/v1, without those of products."""
    paths = retoma.web.site(Retoma("postgresql://nobody@127.0.0.1/nothing")).openapi()["paths"]
    return {
        operation["operationId"]: (method.upper(), path.removeprefix("/api/v1"))
        for path, methods in paths.items()
        if path.startswith("/api/v1/")
        for method, operation in methods.items()
    }


def test_every_operation_of_the_engine_is_in_the_client_or_says_why_not(described: dict[str, tuple[str, str]]) -> None:
    missing = [f"{name} {described[name]}" for name in described.keys() - OPERATIONS.keys() - ELSEWHERE.keys()]

    assert missing == [], "add them to retoma/client/operations.py and to a namespace of the client"


def test_every_operation_of_the_client_is_in_the_description(described: dict[str, tuple[str, str]]) -> None:
    assert {name: described.get(name) for name in OPERATIONS} == OPERATIONS
    assert OPERATIONS.keys().isdisjoint(ELSEWHERE)
