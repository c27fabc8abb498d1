"""No secret reaches a log: not in a message, not in a field, not in an exception."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from retoma.telemetry import Event, emit
from retoma.telemetry.events import DatabaseLost
from retoma.telemetry.logs import bridge, write_to
from retoma.telemetry.redaction import hide, redacted

JWT = f"eyJ{'hbGciOiJI' * 3}.{'eyJzdWIiOi' * 3}.{'c2lnbmF0dXJl' * 2}"
PLANTED = {
    "hunter2-of-the-database": "could not connect to postgresql://retoma:hunter2-of-the-database@db:5432/retoma",
    "p/w-with-signs!": "the DSN is postgres://u:p/w-with-signs!@host/db?sslmode=require",
    "kv-password-4711": "connection failed: host=db user=retoma password=kv-password-4711 dbname=x",
    "quoted-secret-1": "{'api_key': 'quoted-secret-1', 'model': 'small'}",
    "json-secret-2": '{"client_secret": "json-secret-2"}',
    "sk-proj-abcdefghijklmnop123456": "Incorrect API key provided: sk-proj-abcdefghijklmnop123456.",
    "sk-ant-api03-abcdefghijklmnop": "x-api-key: sk-ant-api03-abcdefghijklmnop",
    "bearer-token-abcdef123456": "401 for Authorization: Bearer bearer-token-abcdef123456",
    "dXNlcjpwYXNzd29yZA==": "Authorization: Basic dXNlcjpwYXNzd29yZA==",
    "rtm_0123456789ab_" + "k" * 43: "the key rtm_0123456789ab_" + "k" * 43 + " was refused",
    "rtl_" + "t" * 43: "http://127.0.0.1:8000/login?token=rtl_" + "t" * 43,
    "AKIAIOSFODNN7EXAMPLE": "the credential AKIAIOSFODNN7EXAMPLE has expired",
    "AIza" + "S" * 35: "API_KEY_INVALID AIza" + "S" * 35,
    "ghp_" + "a" * 36: "cloning with ghp_" + "a" * 36,
    JWT: f"session {JWT} is over",
    "named-only-by-its-value": "whatever named-only-by-its-value stands in",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Careless(Event):
    """An event of somebody who puts into it what they should not."""

    message: str
    api_key: str | None = None
    headers: object = None


@pytest.fixture(params=["json", "text"])
def lines(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    hide("named-only-by-its-value")
    stream = io.StringIO()
    ends = [
        write_to(stream, level="info", format=request.param),
        bridge(stream, level="info", format=request.param),
    ]
    yield stream
    for end in ends:
        end()


def _fail(text: str) -> None:
    raise ConnectionError(text)


@pytest.mark.parametrize("secret", PLANTED, ids=range(len(PLANTED)))
def test_a_planted_secret_is_in_no_line(lines: io.StringIO, secret: str) -> None:
    text, log = PLANTED[secret], logging.getLogger("somebody")

    emit(DatabaseLost(doing="asking", error=text))
    emit(Careless(message="as a field", api_key=secret, headers={"Authorization": secret, "told": [text]}))
    log.warning("as a message: %s", text)
    try:
        _fail(text)
    except ConnectionError:
        log.exception("as an exception")

    written = lines.getvalue()
    assert written.count("\n") >= 4
    assert secret not in written
    assert "[redacted]" in written
    assert "ConnectionError" in written, "what happened is still told"


@pytest.mark.parametrize(
    "text",
    [
        "ConnectionError: the scale does not answer",
        "http://localhost:8000/api/v1/jobs gave 503",
        "the step 'token/3' took longer than 2 s",
        "key letter-1 is taken",
        "used 120 input tokens and 30 output tokens",
    ],
)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert redacted(text) == text


def test_a_line_of_another_logger_is_json_like_ours() -> None:
    stream = io.StringIO()
    end = bridge(stream, level="info", format="json", label="worker-1")
    logging.getLogger("somebody").info("read %d pages", 3)
    logging.getLogger("somebody").debug("a detail")
    logging.getLogger("httpx").info("HTTP Request: POST https://example.org/v1/chat")
    end()
    logging.getLogger("somebody").warning("afterwards")

    (line,) = stream.getvalue().splitlines()
    said = json.loads(line)
    assert said.pop("at").endswith("Z")
    assert said == {
        "level": "info", "event": "log", "workerLabel": "worker-1", "logger": "somebody", "message": "read 3 pages",
    }  # fmt: skip
