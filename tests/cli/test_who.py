"""Who did what, by command: the account is written down with the change; keys are rotated, sessions are ended."""

from __future__ import annotations

import ast
import asyncio
import getpass
import inspect
import json
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import psycopg
import pytest

import retoma.cli
import retoma.sync
from retoma import Retoma, Settings
from retoma.app.access.keys import Access
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.library import Quotes
from retoma.postgres.database import Database

from .cli_program import double
from .conftest import PROGRAM, Run

EVERYTHING = """
from pathlib import Path

from retoma import Retoma
from retoma.pipelines import BOOKS, DOCUMENTS, EMBEDDINGS, QUOTES
from retoma.providers import BlobStore, Embedder, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalEmbedder, LocalExtractor
from retoma.providers.local.encoder import Lexical

blobs = FolderBlobs(Path(__file__).parent / "blobs")
providers = {BlobStore: blobs, Embedder: LocalEmbedder(Lexical()), Extractor: LocalExtractor()}
app = Retoma(extensions=[DOCUMENTS, EMBEDDINGS, QUOTES, BOOKS], providers=providers)
"""
WHERE = ("--organisation", "o", "--site", "s")
ME = f"{getpass.getuser()}@{socket.gethostname()}"


def rows(run: Run, *options: str) -> list[dict[str, Any]]:
    """The audit, the oldest first."""
    found: list[dict[str, Any]] = json.loads(run("audit", "list", "--json", *options).stdout)
    return found[::-1]


def test_every_command_that_changes_something_says_who_did_it(run: Run) -> None:
    job = run("enqueue", "--app", PROGRAM, "double", "21").stdout.strip()
    for command in (
        ("job", "cancel", job),
        ("job", "retry", job),
        ("queue", "pause", "letters"),
        ("queue", "limit", "letters", "lane", "3"),
        ("prices", "set", "openai", "gpt", "--input", "1"),
        ("limits", "set", "openai/gpt", "--requests", "3"),
        ("prune", "--older-than", "30d", "--yes"),
    ):
        run(*command)

    found = rows(run)

    assert {(row["who"], row["via"]) for row in found} == {(ME, "cli")}
    assert [row["action"] for row in found if row["outcome"] == "done"] == [
        "job.enqueue", "job.cancel", "job.retry", "queue.pause", "queue.limit", "price.set", "limit.set", "job.prune",
    ]  # fmt: skip
    assert (found[0]["object_id"], found[0]["route"]) == (job, "retoma enqueue")
    assert (found[1]["before"]["state"], found[1]["after"]["state"]) == ("queued", "cancelled")
    assert [row["action"] for row in rows(run, "--object", f"job:{job}")] == ["job.enqueue", "job.cancel", "job.retry"]
    assert len(rows(run, "--action", "queue.pause", "--who", ME, "--since", "1h")) == 1
    assert rows(run, "--since", "1h", "--who", "nobody") == []
    told = run("audit", "list", "--object", f"job:{job}").stdout
    assert "state: queued → cancelled" in told


def test_a_command_that_fails_leaves_no_row_of_a_change(run: Run) -> None:
    assert run("batch", "pause", "99").exit_code != 0

    assert rows(run) == []


def test_a_key_is_rotated_and_both_secrets_open_until_the_grace_is_over(run: Run, database_url: str) -> None:
    first = run("key", "create", "robot", "--scope", "read", "--expires", "never").stdout.strip()
    id = first.split("_")[1]
    second = run("key", "rotate", id).stdout.strip()
    assert first != second
    assert [opens(database_url, text) for text in (first, second)] == [True, True]

    third = run("key", "rotate", id, "--grace", "0s").stdout.strip()

    assert [opens(database_url, text) for text in (first, second, third)] == [False, False, True]
    assert third.split("_")[1] == id
    assert [row["action"] for row in rows(run)] == ["key.create", "key.rotate", "key.rotate"]
    assert third.split("_", 2)[2] not in str(rows(run))


def opens(url: str, text: str) -> bool:
    async def asked() -> bool:
        database = Database(url, Settings.load(database_url=url))
        await database.open()
        try:
            return await Access(lambda: database).recognise(text) is not None
        finally:
            await database.close()

    return asyncio.run(asked())


def test_a_key_expires_unless_somebody_says_never_and_doctor_warns(run: Run, psql: psycopg.Connection) -> None:
    ends, never = (run("key", "create", name, "--scope", "read", *more).stdout.strip() for name, *more in (
        ("ends",), ("never", "--expires", "never"),
    ))  # fmt: skip

    left = psql.execute("select name, expires_at - now() from retoma.api_keys order by name").fetchall()

    assert (left[0][0], left[0][1].days) == ("ends", 364)
    assert left[1] == ("never", None)
    psql.execute("update retoma.api_keys set expires_at = now() + interval '3 days' where name = 'ends'")
    told = run("doctor").stdout
    assert f"{ends.split('_')[1]} (ends) expires on" in told
    assert f"retoma key rotate {ends.split('_')[1]}" in told
    assert f"never expire: {never.split('_')[1]}" in told


def test_the_checksum_of_a_key_tells_a_slip_without_the_database(run: Run, database_url: str) -> None:
    text = run("key", "create", "robot", "--scope", "read").stdout.strip()
    assert re.fullmatch(r"rtm_[0-9a-f]{12}_[A-Za-z0-9_-]{43}[A-Za-z0-9]{6}", text)
    other = "x" if text[-10] != "x" else "y"

    assert opens(database_url, text)
    assert not opens(database_url, text[:-10] + other + text[-9:])


def test_sessions_are_listed_and_ended(run: Run, psql: psycopg.Connection) -> None:
    psql.execute(
        "insert into retoma.sessions (id, secret_hash, opened_by, expires_at)"
        " values ('s1', 'x', 'environment', now() + interval '1 hour')"
    )
    assert "\topen\tenvironment" in run("session", "list").stdout

    assert run("session", "end", "s1").exit_code == 0

    assert json.loads(run("session", "list", "--json").stdout) == []
    assert "\tended\t" in run("session", "list", "--all").stdout
    assert run("session", "end", "s2").exit_code != 0
    assert [row["action"] for row in rows(run)] == ["session.end"]


@pytest.fixture
def full(
    run: Run, database_url: str, psql: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Something of each kind to look at: the ids of a document, and of a batch that has ended, its job and a call."""
    program = tmp_path / "who_program.py"
    program.write_text(EVERYTHING)
    monkeypatch.delitem(sys.modules, "who_program", raising=False)
    monkeypatch.setenv("RETOMA_APP", f"{program}:app")
    letter = tmp_path / "letter.txt"
    letter.write_text("The seller sells the house to the buyer.")
    sent = run("documents", "ingest", str(letter))
    added = run("embeddings", "add", str(letter), "--source-type", "t", "--source-id", "1", *WHERE)
    assert (sent.exit_code, added.exit_code) == (0, 0), sent.output + added.output
    with retoma.sync.Retoma(database_url, pipelines=[double]) as app:
        batch = app.batch(double, [1], name="b")
        app.batches.cancel(batch.id, reason="person")
        job = app.jobs.find(batch_id=batch.id)[0].id
    psql.execute("insert into retoma.calls (key, provider, model, request) values ('k', 'p', 'm', '{}')")
    book = run("books", "summarize", str(letter)).stdout.split("\t")[0]
    quote = asyncio.run(quoted(database_url))
    return {
        "document": sent.stdout.split("\t")[0],
        "batch": str(batch.id),
        "job": str(job),
        "call": "1",
        "book": book,
        "quote": str(quote),
    }


async def quoted(database_url: str) -> int:
    async with Retoma(database_url, extensions=[QUOTES]) as app:
        return int(await Quotes(app).create("Mesa de escritório"))


CONTENT = [
    "job list", "job show {job}", "job export",
    "batch show {batch}", "batch explain {batch}", "batch errors {batch}", "batch events {batch}",
    "batch export {batch}", "batch watch {batch}", "batch list --json", "travadas --json",
    "schedule list --json", "calls list --json", "calls show {call}",
    "documents list", "documents search house", "documents show {document}",
    "embeddings search house --organisation o --site s", "embeddings show t 1 --organisation o --site s",
    "quotes show", "quotes show {quote}", "books list", "books show {book}", "books plan {book}",
]  # fmt: skip
"""Commands that show what documents, inputs, answers or errors say."""


def test_every_look_at_content_is_written_down_by_whom_and_at_what(run: Run, full: dict[str, str]) -> None:
    before = len(rows(run, "--outcome", "looked"))

    for said in CONTENT:
        words = said.format(**full).split()
        ran = run(*words)
        assert ran.exit_code in {0, 1}, (said, ran.output)
        *_, row = rows(run, "--outcome", "looked")
        assert (row["who"], row["via"], row["outcome"]) == (ME, "cli", "looked")
        assert " ".join(words).startswith(row["route"].removeprefix("retoma "))
        named = re.search(r"{(\w+)}", said)
        if named:
            assert (row["object_kind"], row["object_id"]) == (named[1], full[named[1]]), said

    assert len(rows(run, "--outcome", "looked")) == before + len(CONTENT)


def test_what_a_command_shows_is_written_down_first_or_not_shown(
    run: Run, full: dict[str, str], psql: psycopg.Connection
) -> None:
    psql.execute("alter table retoma.audit rename to audit_away")

    for said in CONTENT:
        ran = run(*said.format(**full).split())
        assert (ran.exit_code != 0, ran.stdout) == (True, ""), said


def test_a_look_that_shows_no_content_and_one_at_what_is_not_there_leave_no_row(run: Run, full: dict[str, str]) -> None:
    for words in ("batch list", "calls list", "schedule list", "queue list", "workers", "verify", "batch plan {batch}"):
        assert run(*words.format(**full).split()).exit_code == 0
    for words in ("job show 999", "batch show 999", "batch events 999", "batch watch 999", "calls show 999"):
        assert run(*words.split()).exit_code != 0

    assert rows(run, "--outcome", "looked") == []


# — every command there is —

LOOKS = {
    "doctor", "demo", "bench", "chaos", "accuracy", "verify", "workers", "metrics", "token",
    "db sql", "db status", "top", "queue show", "prices show",
    "batch plan", "queue list", "embeddings status", "key list", "session list", "audit list",
    "calls spend", "prices list", "limits list", "status", "db url", "db psql",
    "batch pilot", "operation list", "operation show", "search", "alert list", "user list", "webhook deliveries",
    "webhook list",
}  # fmt: skip
"""Commands that change nothing of anybody's and show no content. The demo and the bench have databases of their own;
whoever has the address and psql comes in past every door of ours.
"""
SERVES = {"up", "serve", "watchdog"}
"""Commands that work until they are told to stop: what they do is the work itself."""


def test_every_command_is_known_to_look_or_writes_down_what_it_changes_or_shows() -> None:
    silent = []
    for path, command in commands(retoma.cli.main, ""):
        callback = inspect.unwrap(command.callback) if command.callback else None
        assert callback is not None
        if path not in LOOKS | SERVES and not writes_down(callback):
            silent.append(path)

    assert silent == []


def writes_down(callback: Callable[..., object]) -> bool:
    """Whether a command, or a function of its module that it calls, comes by the one way to write things down."""
    module = ast.parse(inspect.getsource(inspect.getmodule(callback)))  # type: ignore[arg-type]
    functions = {each.name: each for each in module.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    left, seen = [callback.__name__], set[str]()
    while left:
        name = left.pop()
        seen.add(name)
        names = [node for node in ast.walk(functions[name]) if isinstance(node, ast.Attribute | ast.Name)]
        if any(isinstance(each, ast.Name) and each.id == "acting" for each in names):
            return True
        called = {each.id for each in names if isinstance(each, ast.Name)}
        left += [each for each in called if each in functions and each not in seen]
    return False


def commands(group: click.Group, path: str) -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    with click.Context(group) as context:
        for name in group.list_commands(context):
            each = group.get_command(context, name)
            assert each is not None
            whole = f"{path} {name}".strip()
            found += commands(each, whole) if isinstance(each, click.Group) else [(whole, each)]
    return found


@pytest.mark.parametrize("known", sorted(LOOKS | SERVES))
def test_what_is_listed_here_is_a_command(known: str) -> None:
    assert known in {path for path, _ in commands(retoma.cli.main, "")}


def test_a_server_that_is_read_only_still_shows_what_is_wrong_and_says_that_the_look_is_in_no_audit(
    run: Run, database_url: str
) -> None:
    job = run("enqueue", "--app", PROGRAM, "double", "21").stdout.strip()
    with psycopg.connect(database_url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'alter database "{name}" set default_transaction_read_only = on'.encode())
        try:
            shown = run("job", "show", job)
        finally:
            connection.execute("set default_transaction_read_only = off")
            connection.execute(f'alter database "{name}" reset default_transaction_read_only'.encode())

    assert "double" in shown.stdout
    assert "not in the audit" in shown.stderr
    assert "looked" not in {each["outcome"] for each in rows(run)}
