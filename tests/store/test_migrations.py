"""What PostgreSQL says of each revision: which tables that were there before it locks, reads through or rewrites; and
what newer tables do to the statements of a program that was there before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

import retoma
from retoma import Settings
from retoma.postgres import migrate
from retoma.store.query import load, numbered

FOLDER = Path(str(resources.files("retoma.store.migrations")))
SOURCE = Path(retoma.__file__).parents[1]
QUERIES = sorted(file for file in SOURCE.glob("retoma/**/queries/*.sql") if file.stem != "shared")

# One row in each table that is busy, where there is one: so that reading through it is seen.
ROWS = {
    "jobs": "(queue, pipeline, max_attempts, timeout_seconds, input) values ('q', 'p', 1, 1, '1')",
    "workers": "(label, host, pid, version, queues, pipelines, at_once, lease_seconds, lease_expires_at)"
    " values ('a', 'b', 1, '1', '{}', '{}', 1, 1, now())",
    "attempts": "(job_id, fence, attempt, worker_id, ending, claimed_at) values (1, 1, 1, 1, 'completed', now())",
    "checkpoints": "(job_id, step, value, checksum, fingerprint, fence) values (1, 's', '1', 'c', 'f', 1)",
    "batches": "(name, pipeline, queue, lane_id, max_resumes, stall_seconds) values ('n', 'p', 'q', 1, 3, 300)",
    "events": "(batch_id, seq, kind, data) values (1, 1, 'k', '{}')",
    "calls": "(key, provider, model, request) values ('k', 'p', 'm', '{}')",
}

TABLES = "select oid, oid::regclass::text from pg_class where relnamespace = 'retoma'::regnamespace and relkind = 'r'"
LOCKED = """
select distinct relation::regclass::text from pg_locks
 where pid = pg_backend_pid() and relation = any (%s)
   and mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""
READ = "select relid::regclass::text from pg_stat_xact_user_tables where relid = any (%s) and seq_tup_read > 0"
FILES = "select oid::regclass::text, pg_relation_filenode(oid) from pg_class where oid = any (%s)"
COLUMNS = """
select attrelid::regclass::text || '.' || attname, format_type(atttypid, atttypmod)
  from pg_attribute where attrelid = any (%s) and attnum > 0 and not attisdropped
"""


@dataclass(frozen=True)
class Seen:
    """What some statements did to tables that were there before them."""

    locked: set[str]
    read: set[str]
    rewritten: set[str]
    gone: set[str]


def watched(connection: psycopg.Connection, text: str) -> Seen:
    """What *text* does, in a transaction that is then given up."""
    with connection.transaction(force_rollback=True):
        oids = [oid for oid, _ in connection.execute(TABLES)]
        files, columns = connection.execute(FILES, [oids]).fetchall(), connection.execute(COLUMNS, [oids]).fetchall()
        connection.execute(text.encode())
        there = [oid for oid, _ in connection.execute(TABLES) if oid in oids]
        return Seen(
            locked={name for (name,) in connection.execute(LOCKED, [oids])},
            read={name for (name,) in connection.execute(READ, [oids])},
            rewritten={name for name, _ in set(files) ^ set(connection.execute(FILES, [there]).fetchall())},
            gone={name for name, _ in set(columns) - set(connection.execute(COLUMNS, [there]).fetchall())},
        )


def revisions() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    return ScriptDirectory.from_config(config)


def text_of(revision: str) -> str:
    (file,) = (FOLDER / "versions").glob(f"{revision}_*.up.sql")
    return file.read_text(encoding="utf-8")


@pytest.fixture
def filled(empty_database_url: str, before: str) -> Iterator[psycopg.Connection]:
    """Tables of the revision *before*, with rows in those that are busy."""
    migrate.upgrade(empty_database_url, Settings.load(), to=before)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        there = {name for _, name in connection.execute(TABLES)}
        for table, row in ROWS.items():
            if f"retoma.{table}" in there:
                connection.execute(f"insert into retoma.{table} {row}")
        yield connection


LATER = [(each.revision, each.down_revision) for each in revisions().walk_revisions() if each.down_revision]


@pytest.mark.parametrize(("revision", "before"), sorted(LATER))
def test_a_revision_locks_one_table_at_most_and_reads_and_rewrites_none(
    filled: psycopg.Connection, revision: str, before: str
) -> None:
    text = text_of(revision)
    if "concurrently" in text:
        pytest.skip("an index that is built beside the work needs no lock that anybody waits for")

    seen = watched(filled, text)

    assert len(seen.locked) <= 1, seen.locked
    assert seen.read == set() or not seen.locked, "rows may be looked at while nobody waits for it"
    assert seen.rewritten == set()
    served, served_before = (revisions().get_revision(each).module.serves for each in (revision, before))
    assert seen.gone == set() or served > served_before


@pytest.mark.parametrize("before", ["head"])
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("alter table retoma.jobs alter column crashes type bigint", "rewritten"),
        ("alter table retoma.jobs add column a uuid default gen_random_uuid()", "rewritten"),
        ("alter table retoma.jobs alter column input set not null, alter column key set not null", "read"),
        ("alter table retoma.calls add constraint a check (units >= 0)", "read"),
        ("create index a on retoma.jobs (key)", "read"),
        ("alter table retoma.jobs drop column error cascade", "gone"),
        ("alter table retoma.jobs rename column error to fault", "gone"),
        ("drop table retoma.events", "gone"),
        ("alter table retoma.jobs add column a int default 1", "locked"),
        ("create table retoma.a (b bigint references retoma.batches)", "locked"),
    ],
)
def test_what_a_revision_may_not_do_is_seen(filled: psycopg.Connection, text: str, what: str) -> None:
    filled.execute("update retoma.jobs set key = 'k'")

    assert getattr(watched(filled, text), what)


@pytest.mark.parametrize("before", ["head"])
def test_a_column_more_in_every_table_changes_no_answer_of_a_program_that_does_not_know_it(
    filled: psycopg.Connection,
) -> None:
    """What was prepared before fails from then on, when its columns would be others now."""
    before = answers(filled)
    for _, table in filled.execute(TABLES).fetchall():
        filled.execute(f"alter table {table} add column added_later text not null default ''")

    assert answers(filled) == before
    assert len(before) > 100


def answers(connection: psycopg.Connection) -> dict[str, list[tuple[bytes | None, int]]]:
    """The columns of every statement of ours, with their types."""
    found = {}
    for file in QUERIES:
        for name, sql in load(".".join(file.parent.relative_to(SOURCE).parts), file.name).items():
            connection.pgconn.prepare(b"", numbered(sql)[0].encode())
            told = connection.pgconn.describe_prepared(b"")
            found[f"{file.relative_to(SOURCE)}: {name}"] = [
                (told.fname(place), told.ftype(place)) for place in range(told.nfields)
            ]
    return found
