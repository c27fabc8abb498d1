"""Every provider and everything that can go wrong: which error it is, when to come back, whether it was paid.

And that no secret is in anything that could be written down.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from asking import CASES, KEY, SECRETS, Case, everything_told

from retoma.providers import (
    AnswerUnreadable,
    ProviderDown,
    ProviderError,
    ProviderRefused,
    ProviderTimeout,
    RateLimited,
    RequestRejected,
)
from retoma.testing.wire import Fault, Served

ECHO = f'{{"error": {{"code": "oops", "message": "It went wrong with key {KEY}"}}}}'
WRONG_TYPES = '{"choices": 1, "data": 1, "content": 1, "status": 1, "shopping_results": 1, "search_metadata": {}}'


@dataclass(frozen=True)
class Expected:
    fault: Fault
    kind: type[ProviderError]
    paid: bool | None = False
    retry_after: float | None = None
    timeout: float = 30.0


def answer(status: int, body: str = ECHO, **headers: str) -> Fault:
    return Fault(kind="answer", status=status, body=body, headers={n.replace("_", "-"): v for n, v in headers.items()})


DATES = {"date": "Wed, 18 Nov 2026 10:00:00 GMT", "retry_after": "Wed, 18 Nov 2026 10:00:30 GMT"}
FAULTS = {
    "401": Expected(answer(401), ProviderRefused),
    "402": Expected(answer(402), ProviderRefused),
    "403": Expected(answer(403), ProviderRefused),
    "400": Expected(answer(400), RequestRejected),
    "404": Expected(answer(404), RequestRejected),
    "413": Expected(answer(413, body="<html><h1>Too large</h1></html>"), RequestRejected),
    "422": Expected(answer(422), RequestRejected),
    "408": Expected(answer(408), ProviderTimeout, paid=None),
    "429 with seconds": Expected(answer(429, retry_after="7"), RateLimited, retry_after=7.0),
    "429 with milliseconds": Expected(answer(429, retry_after_ms="1500"), RateLimited, retry_after=1.5),
    "429 with a date": Expected(answer(429, **DATES), RateLimited, retry_after=30.0),
    "429 with a date of the past": Expected(
        answer(429, date=DATES["retry_after"], retry_after=DATES["date"]), RateLimited, retry_after=0.0
    ),
    "429 with nonsense": Expected(answer(429, retry_after="soon"), RateLimited),
    "429 without a word": Expected(answer(429), RateLimited),
    "500": Expected(answer(500), ProviderDown, paid=None),
    "502 of a gateway": Expected(answer(502, body="<html>Bad gateway</html>"), ProviderDown, paid=None),
    "503 not taken": Expected(answer(503, retry_after="12"), ProviderDown, retry_after=12.0),
    "529 overloaded": Expected(answer(529), ProviderDown),
    "a redirect": Expected(answer(307, location="http://127.0.0.1:9/elsewhere"), ProviderRefused),
    "hang": Expected(Fault(kind="hang"), ProviderTimeout, paid=None, timeout=1.0),
    "slow body": Expected(Fault(kind="slow", seconds=5), ProviderTimeout, paid=None, timeout=1.0),
    "cut in the body": Expected(Fault(kind="cut"), ProviderDown, paid=None),
    "closed without a word": Expected(Fault(kind="vanish"), ProviderDown, paid=None),
    "garbage": Expected(Fault(kind="garbage"), AnswerUnreadable, paid=True),
    "truncated JSON": Expected(Fault(kind="truncated"), AnswerUnreadable, paid=True),
    "an empty object": Expected(answer(200, body="{}"), AnswerUnreadable, paid=True),
    "an empty body": Expected(answer(200, body=" "), AnswerUnreadable, paid=True),
    "a list of numbers": Expected(answer(200, body="[1, 2, 3]"), AnswerUnreadable, paid=True),
    "wrong types": Expected(answer(200, body=WRONG_TYPES), AnswerUnreadable, paid=True),
    "nested too deep": Expected(answer(200, body="[" * 20_000), AnswerUnreadable, paid=True),
}
NOT_SO = {
    # What hands a document in has no body to be slow with, cut or truncated.
    *(("documents-submit", name) for name in ("slow body", "cut in the body", "truncated JSON")),
    # Looking for a result costs nothing, and aiohttp looks again when a connection that it kept was closed.
    ("documents-result", "closed without a word"),
    # Who looks has handed in before: whether that was billed is in doubt (test_documents.py).
    *(("documents-result", name) for name in ("400", "404", "413", "422")),
}
MATRIX = [
    pytest.param(case, name, id=f"{case}: {name}")
    for case in CASES
    for name in FAULTS
    if (case.name, name) not in NOT_SO
]


@pytest.fixture
def every_log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


def assert_no_secret(error: BaseException, log: str) -> None:
    told = everything_told(error)
    assert [secret for secret in SECRETS if secret in told] == []
    assert [secret for secret in SECRETS if secret in log] == []


@pytest.mark.parametrize(("case", "name"), MATRIX)
async def test_a_fault_is_told_for_what_it_is(
    services: Served, case: Case, name: str, every_log: pytest.LogCaptureFixture
) -> None:
    expected = FAULTS[name]
    services.tell(Fault(**{**_fields(expected.fault), "path": case.route}))
    provider = case.make(services.url)

    # On a busy machine a short time can pass before the request is sent. Then nothing was asked, and more is given.
    for timeout in (expected.timeout, expected.timeout * 8, expected.timeout * 32):
        with pytest.raises(ProviderError) as caught:
            await case.ask(provider, timeout)
        if asked := [each for each in services.heard() if case.route in each["path"]]:
            break

    error = caught.value
    await provider.aclose()
    assert type(error) is expected.kind
    assert error.retry_after == expected.retry_after
    assert error.paid is (expected.paid if case.bills else False)
    assert error.provider == provider.provider
    assert error.next
    assert error.__context__ is None
    assert_no_secret(error, every_log.text)
    assert len(asked) == 1, "nobody but the engine tries again"
    if isinstance(error, AnswerUnreadable):
        assert error.raw is not None


def _fields(fault: Fault) -> dict[str, object]:
    return {name: getattr(fault, name) for name in Fault.__slots__}


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_an_answer_that_takes_its_time_is_an_answer(services: Served, case: Case) -> None:
    services.tell(Fault(kind="wait", seconds=0.3, path=case.route))
    provider = case.make(services.url)

    assert await case.ask(provider, 30)

    await provider.aclose()


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_nobody_at_the_address_was_not_paid(case: Case, every_log: pytest.LogCaptureFixture) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        provider = case.make(f"http://127.0.0.1:{closed.getsockname()[1]}")

        with pytest.raises(ProviderError) as caught:
            await case.ask(provider, 30)

    await provider.aclose()
    assert type(caught.value) is ProviderDown
    assert caught.value.paid is False
    assert_no_secret(caught.value, every_log.text)


# One of two clocks: these have a clock for connecting that ends before the whole does.
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name.partition("-")[0] not in ("documents", "fipe")], ids=str
)
async def test_a_connection_that_does_not_come_about_was_not_paid(case: Case) -> None:
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for each in (first, second):  # two fill the queue, and who comes then is not let in
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        provider = case.make(f"http://127.0.0.1:{full.getsockname()[1]}")

        with pytest.raises(ProviderError) as caught:
            await case.ask(provider, 2.0)

    await provider.aclose()
    assert type(caught.value) is ProviderDown
    assert caught.value.paid is False


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_good_answer_leaves_no_secret_in_the_logs(
    services: Served, case: Case, every_log: pytest.LogCaptureFixture
) -> None:
    provider = case.make(services.url)

    found = await case.ask(provider, 30)

    await provider.aclose()
    assert [secret for secret in SECRETS if secret in every_log.text] == []
    assert [secret for secret in SECRETS if secret in repr(found)] == []
    assert [secret for secret in SECRETS if secret in repr(vars(provider))] == []
