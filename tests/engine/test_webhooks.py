"""Webhooks to a real receiver: signed, sent again until they arrive, and never to an address inside."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from retoma import Retoma, Retry, Run, pipeline
from retoma.commands import webhooks as rules
from retoma.commands.webhooks import outcome_of
from retoma.errors import ConfigurationError, NotFound
from retoma.postgres.connections import run_on
from retoma.providers import public_address
from retoma.providers.webhook_post import Posted
from retoma.store.webhooks import Message, Outcome
from retoma.telemetry import Event
from retoma.telemetry.events import WebhookDisabled, WebhookFailed
from retoma.testing import drain
from retoma.worker import webhook_jobs
from retoma.worker.maintenance_jobs import schedule_all
from retoma.worker.watchdog import Watchdog

from .conftest import AppWith

sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))

from webhook_receiver import Receiver, receiving


@pipeline("read", retry=Retry(attempts=1))
async def read(text: str, _run: Run) -> str:
    if text == "bad":
        raise ValueError("SECRET words")
    return text


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
async def app(app_with: AppWith) -> Retoma:
    return await app_with(read, webhook_private="on")


async def due(app: Retoma) -> None:
    """Let the next request of every message be due."""
    async with app.database.connection() as connection:
        await connection.execute("update retoma.webhook_deliveries set next_at = now() where state = 'pending'")


async def test_a_batch_is_told_from_its_start_to_its_end_by_the_houses_own_job(app: Retoma, receiver: Receiver) -> None:
    secret, _ = await app.webhooks.add(receiver.url, kinds=list(rules.KINDS))
    batch = await app.batch(read, ["a", "b", "c", "bad"], name="night")
    await drain(app)

    async with app.database.connection() as connection:
        await run_on(connection, schedule_all("UTC"))
    await Watchdog(lambda: app.database).hurry_webhooks()
    await drain(app)

    told = {json.loads(body)["type"]: json.loads(body)["data"] for _, body in receiver.came}
    assert {"batch.started", "batch.completed", "job.failed"} <= told.keys()
    assert told["batch.completed"]["batch_id"] == batch.id
    assert told["batch.completed"]["failures"] == 1
    assert len(set(receiver.ids)) == len(receiver.ids)
    for headers, body in receiver.came:
        Webhook(secret).verify(body, headers)
        assert b"SECRET" not in body
    assert {each.state for each in await app.webhooks.deliveries()} == {"delivered"}


async def test_while_a_secret_rotates_both_verify_and_afterwards_only_the_new_one(
    app: Retoma, receiver: Receiver
) -> None:
    before, endpoint = await app.webhooks.add(receiver.url)
    after = await app.webhooks.rotate(endpoint.id, grace=timedelta(hours=1))
    await app.webhooks.deliver(await app.webhooks.test(endpoint.id))

    headers, body = receiver.came[-1]
    Webhook(before).verify(body, headers)
    Webhook(after).verify(body, headers)

    last = await app.webhooks.rotate(endpoint.id, grace=timedelta(0))
    await app.webhooks.deliver(await app.webhooks.test(endpoint.id))
    headers, body = receiver.came[-1]
    Webhook(last).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(after).verify(body, headers)


async def test_what_does_not_arrive_is_sent_again_with_the_same_id(
    app: Retoma, receiver: Receiver, heard: list[Event]
) -> None:
    receiver.answer = lambda number: (500 if number < 3 else 200, {})
    _, endpoint = await app.webhooks.add(receiver.url)
    id = await app.webhooks.test(endpoint.id)

    states = []
    for _ in range(3):
        await due(app)
        states.append((await app.webhooks.deliver(id)).state)

    assert states == ["pending", "pending", "delivered"]
    assert receiver.ids == [id] * 3
    assert [each.status for each in await app.webhooks.attempts(id)] == [500, 500, 200]
    assert len([each for each in heard if isinstance(each, WebhookFailed)]) == 2


async def test_an_endpoint_is_disabled_after_days_of_failure_and_enabled_by_a_person(
    app: Retoma, receiver: Receiver, heard: list[Event]
) -> None:
    receiver.answer = lambda number: (500 if number <= len(rules.DELAYS) + 1 else 200, {})
    _, endpoint = await app.webhooks.add(receiver.url)
    id = await app.webhooks.test(endpoint.id)
    for _ in range(len(rules.DELAYS) + 1):
        await due(app)
        delivery = await app.webhooks.deliver(id)

    assert delivery.state == "failed"
    assert (await app.webhooks.get(endpoint.id)).disabled_reason == "failing"
    assert [each.reason for each in heard if isinstance(each, WebhookDisabled)] == ["failing"]
    assert sum(rules.DELAYS) > 3 * 86_400

    await app.webhooks.enable(endpoint.id)
    await app.webhooks.replay(id)
    assert (await app.webhooks.deliver(id)).state == "delivered"
    assert set(receiver.ids) == {id}


async def test_a_receiver_that_is_gone_gets_no_more(app: Retoma, receiver: Receiver) -> None:
    receiver.answer = lambda _: (410, {})
    _, endpoint = await app.webhooks.add(receiver.url)

    delivery = await app.webhooks.deliver(await app.webhooks.test(endpoint.id))

    assert delivery.state == "failed"
    assert (await app.webhooks.get(endpoint.id)).disabled_reason == "gone"


async def test_a_redirect_is_not_followed(app: Retoma, receiver: Receiver) -> None:
    receiver.answer = lambda _: (307, {"location": "/other"})
    _, endpoint = await app.webhooks.add(receiver.url)

    delivery = await app.webhooks.deliver(await app.webhooks.test(endpoint.id))

    assert (delivery.state, delivery.status) == ("pending", 307)
    assert "redirects are not followed" in str(delivery.error)
    assert len(receiver.came) == 1


def test_a_receiver_that_asks_to_wait_is_left_alone_for_so_long() -> None:
    message = Message("m", "e", "k", "{}", 1, 1, "https://x", "s", None)

    outcome = outcome_of(message, Posted(status=429, wait=3600.0))

    assert outcome.delay == 3600.0


INSIDE = [
    "https://127.0.0.1/x", "https://[::1]/x", "https://10.0.0.1/x", "https://169.254.169.254/latest", "https://localhost/",
    "https://[::ffff:127.0.0.1]/", "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://[fec0::1]/",
    "https://100.64.0.1/", "http://8.8.8.8/", "ftp://8.8.8.8/", "https://a:b@8.8.8.8/", "https:///x", "no address",
]  # fmt: skip


async def test_an_address_inside_is_refused_when_it_is_given(app_with: AppWith) -> None:
    app = await app_with(read)

    for url in INSIDE:
        with pytest.raises(ConfigurationError):
            await app.webhooks.add(url)
    assert await app.webhooks.all() == []


async def test_a_name_that_means_a_machine_inside_later_is_refused_when_it_is_sent(
    app_with: AppWith, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def addresses(_host: str, _port: int) -> list[str]:
        return found

    app, found = await app_with(read), ["8.8.8.8"]
    monkeypatch.setattr(public_address, "addresses_of", addresses)
    _, endpoint = await app.webhooks.add(receiver.url.replace("http://127.0.0.1", "https://receiver.example"))
    found[:] = ["8.8.8.8", "127.0.0.1"]

    delivery = await app.webhooks.deliver(await app.webhooks.test(endpoint.id))

    assert "not on the public network" in str(delivery.error)
    assert receiver.came == []


async def test_what_no_webhook_may_be_is_refused_in_words(app: Retoma, receiver: Receiver) -> None:
    for given in ({"kinds": []}, {"kinds": ["batch.eaten"]}):
        with pytest.raises(ConfigurationError):
            await app.webhooks.add(receiver.url, **given)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        await app.webhooks.test("ep_other")
    with pytest.raises(NotFound):
        await app.webhooks.replay("msg_other")


async def test_an_endpoint_gets_every_kind_but_failed_jobs_unless_it_asks(app: Retoma, receiver: Receiver) -> None:
    _, endpoint = await app.webhooks.add(receiver.url, description="  the\nnight  shift ")

    found: Any = await app.webhooks.get(endpoint.id)

    assert "job.failed" not in found.kinds
    assert len(found.kinds) == len(rules.KINDS) - 1
    assert found.description == "the night shift"


async def test_two_jobs_that_write_down_what_they_sent_to_the_same_endpoints_do_not_deadlock(
    app: Retoma, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app.database.connection() as connection:
        for endpoint in ("a", "b"):
            await connection.execute(
                "insert into retoma.webhook_endpoints (id, url, kinds, secret) values (%s, 'http://x', '{}', 's')",
                [endpoint],
            )
            await connection.execute(
                "insert into retoma.webhook_deliveries (id, endpoint_id, kind, body, attempts)"
                " select %s || number, %s, 'batch.started', '{}', 1 from generate_series(1, 2) as number",
                [endpoint, endpoint],
            )
    halfway, go_on = [asyncio.Event(), asyncio.Event()], asyncio.Event()

    class InTransaction:
        """A run of the job, as far as it writes down how requests ended; it stops after the first."""

        def __init__(self, number: int) -> None:
            self.number = number

        async def transact(self, _name: str, settle: Any) -> Any:
            async with app.database.transaction() as connection:
                return await settle((self.number, connection))

    async def stopping(here: tuple[int, Any], command: Any) -> Any:
        number, connection = here
        found = await run_on(connection, command)
        halfway[number].set()
        await go_on.wait()
        return found

    async def waits() -> bool:
        async with app.database.connection() as connection:
            rows = await connection.execute(
                "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            )
            return await rows.fetchone() is not None

    def ended(*ids: str) -> list[tuple[Message, Outcome]]:
        arrived = Outcome(arrived=True, status=204)
        return [(Message(id, id[0], "batch.started", "{}", 1, 1, "http://x", "s", None), arrived) for id in ids]

    monkeypatch.setattr(webhook_jobs, "run_on", stopping)
    one = asyncio.create_task(webhook_jobs._settled(InTransaction(0), 0, ended("a1", "b1")))  # type: ignore[arg-type]
    await halfway[0].wait()
    two = asyncio.create_task(webhook_jobs._settled(InTransaction(1), 0, ended("b2", "a2")))  # type: ignore[arg-type]
    while not halfway[1].is_set() and not await waits():
        await asyncio.sleep(0.01)
    go_on.set()

    assert await asyncio.gather(one, two) == [2, 2]
