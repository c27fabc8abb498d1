"""Alerts without Prometheus: an incident is sent once through each channel, to real receivers, however many watchdogs
look; what is not taken is tried again; nothing secret is said.
"""

from __future__ import annotations

import asyncio
import base64
import email
import email.policy
import hashlib
import hmac
import json
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import psycopg
import pytest

from retoma import Retoma, Settings
from retoma.model import alert
from retoma.model.alert import RULES, Finding
from retoma.postgres.database import Database
from retoma.store import alerts
from retoma.worker import alerting
from retoma.worker.watchdog import Watchdog

SECRET = "a-secret-of-the-receiver"
FACTS = {
    "queue": "mail", "due": 3, "seconds": 700, "batch": 4, "pipeline": "read", "cause": "no_workers", "spent": "2",
    "budget": "2", "jobs": 5, "worker": "ana",
}  # fmt: skip


@dataclass
class Hook:
    """A receiver of webhooks; it answers what *answers* says, and then 204."""

    url: str = ""
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)


@pytest.fixture
def hook() -> Iterator[Hook]:
    received = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(received.answers.pop(0) if received.answers else 204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield received
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass
class Post:
    """A mail server, as far as a sender needs one."""

    port: int = 0
    mails: list[tuple[list[str], Any]] = field(default_factory=list)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to: list[str] = []
        writer.write(b"220 here\r\n")
        while line := (await reader.readline()).decode().strip():
            word = line.partition(" ")[0].upper()
            if word == "RCPT":
                to.append(line.partition("<")[2].partition(">")[0])
            if word == "DATA":
                writer.write(b"354 go on\r\n")
                text = await reader.readuntil(b"\r\n.\r\n")
                self.mails.append((to, email.message_from_bytes(text[:-5], policy=email.policy.default)))
            writer.write(b"221 bye\r\n" if word == "QUIT" else b"250 well\r\n")
            if word == "QUIT":
                break
        await writer.drain()
        writer.close()


@pytest.fixture
async def post() -> AsyncIterator[Post]:
    taken = Post()
    server = await asyncio.start_server(taken.talk, "127.0.0.1", 0)
    taken.port = server.sockets[0].getsockname()[1]
    yield taken
    server.close()
    await server.wait_closed()


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncIterator[Database]:
    database = Database(url, Settings.load(database_url=url, **settings), least=0, most=4)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


def wait_in(psql: psycopg.Connection, queue: str) -> None:
    """A job that has waited in *queue* for an hour, and nobody serves it."""
    psql.execute(
        "insert into retoma.jobs (pipeline, queue, input, max_attempts, timeout_seconds, run_at) "
        "values ('read', %s, '1', 3, 60, now() - interval '1 hour')",
        [queue],
    )
    psql.commit()


async def test_an_incident_is_sent_once_by_webhook_and_mail_however_many_watchdogs_look(
    database_url: str, psql: psycopg.Connection, hook: Hook, post: Post
) -> None:
    wait_in(psql, "mail")
    settings = {
        "alert_webhook": hook.url,
        "alert_webhook_secret": SECRET,
        "alert_smtp": f"smtp://127.0.0.1:{post.port}",
        "alert_email_to": "ana@example.org, bruno@example.org",
        "alert_email_from": "retoma@example.org",
        "alert_language": "pt",
    }
    async with opened(database_url, **settings) as one, opened(database_url, **settings) as other:
        dogs = [Watchdog(lambda: one), Watchdog(lambda: other), Watchdog(lambda: one)]
        for _ in range(2):
            await asyncio.gather(*(dog.judge_alerts() for dog in dogs))
            await asyncio.gather(*(dog.send_alerts() for dog in dogs))

    [(headers, body)] = hook.got
    said = json.loads(body)
    assert (said["rule"], said["subject"], said["severity"]) == ("queue_without_workers", "mail", "critical")
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    proof = base64.b64encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{proof}"
    [(to, mail)] = post.mails
    assert to == ["ana@example.org", "bruno@example.org"]
    assert mail["Subject"].startswith("Retoma, Crítico: Uma tarefa espera na fila mail")
    assert "retoma worker --queues mail" in mail.get_content()


async def test_what_a_receiver_does_not_take_is_tried_again_later_and_shown(
    database_url: str, psql: psycopg.Connection, hook: Hook
) -> None:
    wait_in(psql, "mail")
    hook.answers = [500]
    async with opened(database_url, alert_webhook=hook.url) as database:
        await alerting.judge(database)
        assert await alerting.send(database) == 0
        (failed,) = await database.all(alerts.page(open=True))
        assert await alerting.send(database) == 0, "it is not due yet"
        psql.execute("update retoma.alert_deliveries set due_at = now()")
        psql.commit()
        assert await alerting.send(database) == 1
        (told,) = await database.all(alerts.page(open=True))

    assert (failed.sent, failed.error) == ([], "HTTP 500")
    assert (told.sent, told.error) == (["webhook"], None)
    assert len({headers["webhook-id"] for headers, _ in hook.got}) == 1


async def test_messages_that_wait_for_a_slow_receiver_are_left_to_another_sender_and_sent_once(
    database_url: str, psql: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for queue in ("a", "b", "c"):
        wait_in(psql, queue)
    sent: list[str] = []

    def slow(message: alert.Delivery, _settings: Settings) -> None:
        sent.append(message.id)
        if len(sent) == 1:
            # While the first sender waits for the receiver, its pause passes for whatever else it has taken.
            with psycopg.connect(database_url) as connection:
                connection.execute(
                    "update retoma.alert_deliveries set due_at = due_at - interval '2 minutes' where alert_id <> %s",
                    [message.alert_id],
                )
            asyncio.run(send_elsewhere())

    async def send_elsewhere() -> None:
        async with opened(database_url, alert_webhook="http://127.0.0.1:9/hook") as other:
            await alerting.send(other)

    monkeypatch.setitem(alerting._SENDERS, "webhook", slow)
    async with opened(database_url, alert_webhook="http://127.0.0.1:9/hook") as database:
        await alerting.judge(database)
        await alerting.send(database)

    assert len(sent) == len(set(sent)) == 3


async def test_a_mail_server_that_is_not_there_is_an_error_without_its_password(
    database_url: str, psql: psycopg.Connection
) -> None:
    wait_in(psql, "mail")
    smtp = "smtp://ana:hunter2@127.0.0.1:9"
    async with opened(database_url, alert_smtp=smtp, alert_email_to="ana@example.org") as database:
        await alerting.judge(database)
        await alerting.send(database)
        (failed,) = await database.all(alerts.page(open=True))

    assert failed.error == "ConnectionRefusedError"
    assert "hunter2" not in repr(Settings.load(database_url=database_url, alert_smtp=smtp))


async def test_its_end_is_sent_once_where_that_is_wanted(
    database_url: str, psql: psycopg.Connection, hook: Hook
) -> None:
    wait_in(psql, "mail")
    async with opened(database_url, alert_webhook=hook.url, alert_resolved="on") as database:
        await alerting.judge(database)
        await alerting.send(database)
        psql.execute("delete from retoma.jobs")
        psql.commit()
        for _ in range(2):
            await alerting.judge(database, quiet=0)
            await alerting.send(database)

    assert [json.loads(body)["what"] for _, body in hook.got] == ["opened", "resolved"]


async def test_a_process_without_a_channel_leaves_sending_to_one_that_has_it(
    database_url: str, psql: psycopg.Connection, hook: Hook
) -> None:
    wait_in(psql, "mail")
    async with opened(database_url) as mute, opened(database_url, alert_webhook=hook.url) as able:
        await alerting.judge(mute)
        assert await alerting.send(mute) == 0
        assert await alerting.send(able) == 1

    assert len(hook.got) == 1


async def test_who_looks_after_an_incident_is_kept_with_it(database_url: str, psql: psycopg.Connection) -> None:
    wait_in(psql, "mail")
    async with Retoma(database_url) as app:
        await alerting.judge(app.database)
        (found,) = await app.system.alerts()

        done = await app.system.acknowledge(found.id, by="ana", note="I start one")

        assert (done.state, done.acknowledged_by, done.note) == ("acknowledged", "ana", "I start one")
        assert await app.system.alerts(open=False) == [done]


@pytest.mark.parametrize("language", ["en", "pt"])
def test_every_rule_has_its_sentences_in_both_languages(language: str) -> None:
    for rule in RULES:
        assert alert.sentence(rule, FACTS, language)
        assert alert.advice(rule, FACTS, language)


@pytest.mark.parametrize("language", ["en", "pt"])
@pytest.mark.parametrize("rule", ["queue_without_workers", "queue_late", "dead_letters", "jobs_stuck"])
def test_one_job_is_told_in_words_and_not_as_1_jobs(rule: str, language: str) -> None:
    one = alert.sentence(rule, FACTS | {"jobs": 1, "due": 1}, language)

    assert not re.search(r"\b1 (jobs|tarefas)", one)
    assert one != alert.sentence(rule, FACTS, language)


def test_a_finding_is_of_a_known_rule() -> None:
    text = alerts.SQL["judge"]

    assert all(f"'{rule}'" in text for rule in RULES)
    assert Finding("queue_late", "mail", "warning", {}).subject == "mail"
