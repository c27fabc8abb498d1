"""Commands of quotes that are killed while they write: all of it is there, or nothing, and the same command goes on."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from .conftest import Command
from .test_quotes import PROGRAM, environment, finish

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))
from pictures import png  # isort: skip - the images are those of the pipeline's own tests

__all__ = ["environment"]

# Several processes start here, and the machine may be busy.
pytestmark = pytest.mark.timeout(300)

IPCA = "# index: IPCA\n# source: made up\n# dated: 2026-10-09\nmonth,percent\n2026-08,0.10\n2026-09,0.20\n"
WAITING = """
select count(*) from pg_locks
 where relation = %s::regclass and not granted
   and database = (select oid from pg_database where datname = current_database())
"""


@contextmanager
def held(url: str, table: str) -> Iterator[psycopg.Connection]:
    """Nobody writes to *table* meanwhile."""
    with psycopg.connect(url) as holder:
        holder.execute(f"lock table {table} in exclusive mode".encode())
        yield holder


def killed(command: Command, url: str, table: str, *args: str, **variables: str) -> None:
    """Kill a command at the moment in which it is about to write to *table*."""
    with held(url, table), psycopg.connect(url, autocommit=True) as looking:
        process = command.start(*args, **variables)
        deadline = time.monotonic() + 200
        while looking.execute(WAITING, [table]).fetchone() == (0,):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)


def test_the_loading_of_an_index_table_that_is_killed_leaves_nothing_and_is_done_by_the_same_command(
    command: Command, environment: dict[str, str], database_url: str, psql: psycopg.Connection, tmp_path: Path
) -> None:
    finish(command, "db", "upgrade", **environment)
    file = tmp_path / "ipca.csv"
    file.write_text(IPCA)
    load = ("quotes", "indices", "load", str(file), "--app", PROGRAM)

    killed(command, database_url, "quotes.index_tables", *load, **environment)
    before = psql.execute("select count(*) from quotes.index_tables").fetchone()
    done = finish(command, *load, **environment)
    again = finish(command, *load, **environment)

    assert (before, done.returncode, again.stdout) == ((0,), 0, done.stdout)
    assert psql.execute("select content from quotes.index_tables").fetchall() == [(IPCA,)]


def test_the_change_of_terms_that_is_killed_leaves_the_version_before_and_no_gap(
    command: Command, environment: dict[str, str], database_url: str, psql: psycopg.Connection, tmp_path: Path
) -> None:
    finish(command, "db", "upgrade", **environment)
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    first.write_text(json.dumps({"quotes_wanted": 4}))
    second.write_text(json.dumps({"quotes_wanted": 5}))
    change = ("quotes", "terms", "Frota", "--app", PROGRAM, "--set")
    finish(command, *change, str(first), **environment)

    killed(command, database_url, "quotes.configurations", *change, str(second), **environment)
    shown = finish(command, *change[:-1], **environment)
    finish(command, *change, str(second), **environment)

    assert json.loads(shown.stdout)["quotes_wanted"] == 4, shown.stderr
    rows = psql.execute("select version, terms ->> 'quotes_wanted' from quotes.configurations order by id").fetchall()
    assert rows == [(1, "4"), (2, "5")]


def test_photographs_whose_quotes_were_never_made_are_swept_and_the_same_command_keeps_them_once(
    command: Command, environment: dict[str, str], database_url: str, psql: psycopg.Connection, tmp_path: Path
) -> None:
    finish(command, "db", "upgrade", **environment)
    photographs = tmp_path / "fotos"
    photographs.mkdir()
    (photographs / "4711.png").write_bytes(png())
    run = ("quotes", "run", str(photographs), "--detach")

    killed(command, database_url, "quotes.quote_requests", *run, **environment)
    loose = psql.execute("select blob from retoma.loose_blobs").fetchall()
    quotes = psql.execute("select count(*) from quotes.quote_requests").fetchone()
    done = finish(command, *run, **environment)
    kept = psql.execute("select input_blob from quotes.quote_requests").fetchall()

    assert (len(loose), quotes) == (1, (0,))
    assert done.returncode == 0, done.stderr
    assert len(kept) == 1
    assert kept != loose
    assert psql.execute("select blob from retoma.loose_blobs").fetchall() == loose, "the sweep of a day later has it"
