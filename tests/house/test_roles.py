"""The rights of the roles: every table has its line, and every statement of ours somebody who may run it."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from retoma.app.extension import branches_of
from retoma.pipelines import ALL
from retoma.postgres.migrate import Branch
from retoma.store.query import load, numbered
from retoma.store.roles import grants

SOURCE = Path(__file__).parents[2] / "src"
FILES = sorted(
    file
    for file in SOURCE.glob("retoma/**/queries/*.sql")
    # What measures, and what lets time pass in tests, is run by the owner.
    if file.parents[1].name != "bench" and file.name not in {"shared.sql", "ageing.sql"}
)


def called(file: Path, name: str) -> str:
    """A block by its file and its name; with the pipeline's name before it where there is one."""
    room = file.parents[1].name
    return f"{file.stem}.{name}" if room in {"store", "pipelines"} else f"{room}.{file.stem}.{name}"


BLOCKS = {
    called(file, name): sql
    for file in FILES
    for name, sql in load(".".join(file.parent.relative_to(SOURCE).parts), file.name).items()
}


OWNER_ONLY: set[str] = set()
WORKER_ONLY = {
    # Taking jobs, and saying how they ended.
    "jobs.claim", "jobs.claim_alone", "jobs.follow", "jobs.end", "jobs.end_alone",
    "checkpoints.save", "workers.hello", "workers.heartbeat", "workers.stopping",
    # Removing what is old: the house's own chore, which workers run.
    "batches.retire", "batches.prune", "calls.prune", "jobs.prune", "replies.prune", "workers.prune",
    "alerts.prune", "audit.prune", "operations.prune", "sessions.prune",
    # What the ready pipelines find.
    "classification.refinements.finish", "classification.refinements.keep_vectors",
    "classification.findings.apply", "classification.findings.copy_place", "classification.findings.find",
    "classification.findings.line_up", "classification.findings.place", "classification.findings.plan",
    "classification.findings.put",
    "classification.results.copy_known", "classification.results.save", "documents.contents.clear",
    "documents.contents.put_chunks", "documents.contents.put_fields", "documents.contents.put_tables",
    "documents.documents.finish", "embeddings.texts.store", "books.sessions.planned",
    "quotes.report_jobs.advance", "quotes.report_jobs.begin", "quotes.report_jobs.finish",
    "quotes.bank.put", "quotes.requests.advance", "quotes.requests.begin", "quotes.requests.finish",
    "quotes.sources.picture", "quotes.requests.advance_tested", "quotes.requests.init",
}  # fmt: skip
WEB_ONLY = {
    "limits.remove",
    # Who comes in, and what they were answered.
    "keys.all", "keys.lock_of", "keys.tally", "keys.use", "replies.keep", "replies.one",
    "sessions.all", "sessions.end", "sessions.gone", "sessions.lock_of", "sessions.open", "sessions.seen",
    "keys.create", "keys.revoke", "keys.rotate",
    "users.add", "users.all", "users.arrive", "users.find", "users.lock", "users.lock_of", "users.rehash",
    "users.remove", "users.set_password", "users.set_role", "users.signed_in", "users.unlock",
    "sign_ins.begin", "sign_ins.take", "tries.begin", "tries.refused", "tries.right",
    # Who is told.
    "webhooks.add", "webhooks.remove", "webhooks.rotate",
    # Who did what.
    "audit.page", "standing.key", "standing.session",
    # What people keep and decide.
    "views.keep", "views.remove", "views.seen_by", "standing.view", "calls.set_tier_price",
    "flow.paused_by", "workers.drain",
    "queues.limit_lane", "queues.pause", "queues.resume", "schedules.pause", "schedules.remove",
    "standing.user",
    "alerts.acknowledge", "schedules.resume",
    # What people send, and set up.
    "classification.documents.add", "classification.documents.announce", "classification.documents.archive",
    "classification.executions.archive", "classification.executions.create", "classification.executions.replanned",
    "classification.projects.archive",
    "classification.projects.change", "classification.projects.create", "classification.projects.hold",
    "classification.prompts.archive", "classification.prompts.change", "classification.prompts.create",
    "classification.prompts.hold",
    "classification.results.begin", "documents.documents.queue", "documents.documents.receive",
    "documents.documents.remove", "usage.spend", "usage.spent", "usage.submitted", "usage.waiting",
    "quotes.bank.decide_update", "quotes.bank.set_mode", "quotes.report_jobs.put",
    "quotes.batches.create", "quotes.batches.put_items", "quotes.indices.put", "quotes.projects.configure",
    "quotes.projects.create",
    "quotes.projects.hold", "quotes.requests.create", "quotes.reviews.put",
    "quotes.sources.drop", "quotes.sources.take",
    "books.chapters.clear", "books.feedback.add", "books.feedback.answer", "books.sessions.approve",
    "books.desk.withdraw",
    "books.sessions.attach", "books.sessions.begin", "books.sessions.keep_input", "books.sessions.queue",
    "books.sessions.remove", "books.sessions.remove_input",
}  # fmt: skip


@pytest.fixture
def connection(parts: dict[str, str]):
    with psycopg.connect(parts["admin"], autocommit=True) as connection:
        # A plan for any values: what a value would leave out is asked for, too.
        connection.execute("set plan_cache_mode = force_generic_plan")
        yield connection


def refused(connection: psycopg.Connection, role: str) -> dict[str, str]:
    """The statements that *role* may not run, each with what PostgreSQL says. They are planned, and not run."""
    found = {}
    connection.execute(f"set role {role}")
    for name, sql in BLOCKS.items():
        text, parameters = numbered(sql)
        connection.execute(f"prepare tried as {text.rstrip().removesuffix(';')}")
        values = f"({', '.join(['null'] * len(parameters))})" if parameters else ""
        try:
            connection.execute(f"explain execute tried{values}")
        except psycopg.errors.InsufficientPrivilege as error:
            found[name] = str(error.diag.message_primary)
        connection.execute("deallocate tried")
    connection.execute("reset role")
    return found


BRANCHES = branches_of(ALL)


@pytest.mark.parametrize("branch", BRANCHES, ids=lambda branch: branch.name)
def test_every_table_and_view_has_its_line(psql: psycopg.Connection, branch: Branch) -> None:
    found = psql.execute("select relname from pg_class where relnamespace = %s::regnamespace and relkind in "
                         "('r', 'p', 'v', 'm', 'f')", [branch.schema]).fetchall()  # fmt: skip

    missing = {name for (name,) in found} - grants(branch.package).keys()

    assert found
    assert not missing, f"Say in grants.toml of {branch.package} who may do what with {', '.join(sorted(missing))}"


@pytest.mark.parametrize("branch", BRANCHES, ids=lambda branch: branch.name)
def test_only_the_parts_that_run_are_given_rights(branch: Branch) -> None:
    said = grants(branch.package)
    assert {part for each in said.values() for part in each} == {"worker", "web", "reader"}
    reader = {name: each["reader"] for name, each in said.items() if "reader" in each}
    assert reader.pop("audit", "select, insert") == "select, insert", "whoever looks at content is in it"
    assert all(re.fullmatch(r"select( \(.*\))?", each) for each in reader.values())
    assert "truncate" not in str(said)


def test_worker_and_web_may_run_their_statements_and_none_of_the_others(
    connection: psycopg.Connection, parts: dict[str, str]
) -> None:
    role = {part: str(urlsplit(url).username) for part, url in parts.items()}

    worker, web = refused(connection, role["worker"]), refused(connection, role["web"])

    assert {name: worker[name] for name in worker.keys() - OWNER_ONLY - WEB_ONLY} == {}
    assert {name: web[name] for name in web.keys() - OWNER_ONLY - WORKER_ONLY} == {}
    assert (OWNER_ONLY | WEB_ONLY) - worker.keys() == set()
    assert (OWNER_ONLY | WORKER_ONLY) - web.keys() == set()


def test_a_reader_may_run_what_only_reads_and_write_down_that_it_looked(
    connection: psycopg.Connection, parts: dict[str, str]
) -> None:
    changes = re.compile(
        r"\b(insert into|update (retoma|quotes|books|classification)|delete from|nextval\(|"
        r"for (no key )?update|for (key )?share)\b"
    )
    secret = {"keys.lock_of", "replies.one", "sessions.lock_of", "users.lock_of"}
    reading = {name for name, sql in BLOCKS.items() if not changes.search(sql)} - secret

    kept_from = refused(connection, str(urlsplit(parts["reader"]).username))

    assert reading & kept_from.keys() == set()
    assert BLOCKS.keys() - reading - kept_from.keys() == {"audit.write"}, "that it looked at content"


def test_the_owner_may_run_everything(connection: psycopg.Connection, parts: dict[str, str]) -> None:
    assert refused(connection, str(urlsplit(parts["owner"]).username)) == {}
