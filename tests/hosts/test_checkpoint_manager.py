"""Checkpoints in a table of somebody else's, on their own session or connection."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy import JSON, DateTime, Float, Integer, String
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from retoma.errors import ConfigurationError, LeaseLost, RowConflict, Unstorable
from retoma.hosts.checkpoints import (
    AsyncCheckpointManager,
    CheckpointManager,
    ProcessingCheckpoint,
    Recovered,
    Table,
)

HERE = Path(__file__).parent
STAGE = ProcessingCheckpoint


class QuoteStatus(StrEnum):
    PROCESSING = "PROCESSING"
    DONE = "DONE"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"


class Base(DeclarativeBase):
    pass


class QuoteRequest(Base):
    """The columns as the seed has them: times without a zone, and JSON that nobody can merge into."""

    __tablename__ = "quote_requests"
    id: Mapped[int] = mapped_column(primary_key=True)
    status: Mapped[str] = mapped_column(String(20), default="PENDING")
    claude_payload_json: Mapped[Any] = mapped_column(JSON, nullable=True)
    processing_checkpoint: Mapped[str | None] = mapped_column(String(50))
    last_heartbeat: Mapped[Any] = mapped_column(DateTime, nullable=True)
    worker_id: Mapped[str | None] = mapped_column(String(100))
    resume_data: Mapped[Any] = mapped_column(JSON, nullable=True)
    started_at: Mapped[Any] = mapped_column(DateTime, nullable=True)
    completed_at: Mapped[Any] = mapped_column(DateTime, nullable=True)
    progress: Mapped[float | None] = mapped_column("progress_percentage", Float)
    attempt_number: Mapped[int | None] = mapped_column(Integer)
    error_message: Mapped[str | None] = mapped_column(String)


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(empty_database_url.replace("postgresql://", "postgresql+psycopg://"))
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def psql(engine: sqlalchemy.Engine) -> Iterator[psycopg.Connection[Any]]:
    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def quote(psql: psycopg.Connection[Any]) -> int:
    return made(psql)


def made(psql: psycopg.Connection[Any], status: str = "PENDING") -> int:
    row = psql.execute("insert into quote_requests (status) values (%s) returning id", (status,)).fetchone()
    assert row
    return int(row[0])


def column(psql: psycopg.Connection[Any], quote: int, name: str) -> Any:
    row = psql.execute(f"select {name} from quote_requests where id = %s", (quote,)).fetchone()
    assert row
    return row[0]


def let_pass(psql: psycopg.Connection[Any], quote: int, time: str = "11 minutes") -> None:
    psql.execute(
        "update quote_requests set last_heartbeat = last_heartbeat - %s::interval where id = %s", (time, quote)
    )


# — every kind of connection —

Blocking = Callable[[str], AbstractContextManager[Any]]
Awaited = Callable[[str], AbstractAsyncContextManager[Any]]


@contextmanager
def a_session(url: str) -> Iterator[Session]:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with Session(engine) as session:
        yield session
    engine.dispose()


@contextmanager
def a_connection(url: str) -> Iterator[sqlalchemy.Connection]:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def an_async_session(driver: str) -> Awaited:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[AsyncSession]:
        plain = url.partition("?")[0] if driver == "asyncpg" else url
        connect = {"host": _socket(url)} if driver == "asyncpg" and _socket(url) else {}
        engine = create_async_engine(plain.replace("postgresql://", f"postgresql+{driver}://"), connect_args=connect)
        async with AsyncSession(engine) as session:
            yield session
        await engine.dispose()

    return opened


def _socket(url: str) -> str | None:
    return psycopg.conninfo.conninfo_to_dict(url).get("host")  # type: ignore[return-value]


@asynccontextmanager
async def an_async_connection(url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


@asynccontextmanager
async def a_connection_of_asyncpg(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


@pytest.mark.parametrize("opened", [psycopg.connect, a_session, a_connection])
def test_the_calls_of_the_seed_work_on_a_blocking(
    opened: Blocking, quote: int, empty_database_url: str, psql: psycopg.Connection[Any]
) -> None:
    with opened(empty_database_url) as db:
        manager = CheckpointManager(db, commit=True)
        assert not manager.can_resume(quote)
        manager.start_processing(quote)
        manager.save_checkpoint(quote, STAGE.AI_ANALYSIS_DONE, progress_percentage=30)
        manager.update_heartbeat(quote)
        assert manager.can_resume(quote), "it holds the row itself"
        assert manager.get_resume_checkpoint(quote) == STAGE.AI_ANALYSIS_DONE
        manager.save_checkpoint(quote, STAGE.PRICE_EXTRACTION_PROGRESS, resume_data={"tested_products": ["a"]})
        manager.save_checkpoint(quote, STAGE.PRICE_EXTRACTION_PROGRESS, resume_data={"tolerance": 25})
        assert manager.get_resume_data(quote) == {"tested_products": ["a"], "tolerance": 25}
        assert column(psql, quote, "progress_percentage") == 30
        manager.complete_processing(quote, QuoteStatus.DONE)

    assert column(psql, quote, "status") == "DONE"
    assert column(psql, quote, "processing_checkpoint") == "COMPLETED"
    assert column(psql, quote, "progress_percentage") == 100
    assert column(psql, quote, "worker_id") is None
    assert column(psql, quote, "started_at <= completed_at and completed_at <= now() at time zone 'UTC'")


@pytest.mark.parametrize(
    "opened", [an_async_connection, an_async_session("psycopg"), an_async_session("asyncpg"), a_connection_of_asyncpg]
)
async def test_the_calls_of_the_seed_work_on_an_async(
    opened: Awaited, quote: int, empty_database_url: str, psql: psycopg.Connection[Any]
) -> None:
    async with opened(empty_database_url) as db:
        manager = AsyncCheckpointManager(db, commit=hasattr(db, "commit"))
        assert not await manager.can_resume(quote)
        await manager.start_processing(quote)
        await manager.save_checkpoint(quote, STAGE.AI_ANALYSIS_DONE, 30, {"tested_products": ["a"]})
        await manager.update_heartbeat(quote)
        assert await manager.can_resume(quote)
        assert await manager.get_resume_checkpoint(quote) == STAGE.AI_ANALYSIS_DONE
        assert await manager.get_resume_data(quote) == {"tested_products": ["a"]}
        assert await manager.recover_stuck() == Recovered([], [])
        await manager.complete_processing(quote, QuoteStatus.ERROR, error_message="no price")

    assert column(psql, quote, "status") == "ERROR"
    assert column(psql, quote, "processing_checkpoint") == "AI_ANALYSIS_DONE", "what failed keeps its stage"
    assert column(psql, quote, "error_message") == "no price"


async def test_an_object_of_an_async_orm_shows_what_was_written(quote: int, empty_database_url: str) -> None:
    async with an_async_session("psycopg")(empty_database_url) as db:
        row = await db.get(QuoteRequest, quote)
        manager = AsyncCheckpointManager(db)
        await manager.start_processing(row)
        await manager.save_checkpoint(row, STAGE.AI_ANALYSIS_DONE, 30)
        assert (row.processing_checkpoint, row.progress) == ("AI_ANALYSIS_DONE", 30)
        await db.commit()


def test_an_object_of_the_orm_shows_what_was_written_and_its_changes_go_along(
    engine: sqlalchemy.Engine, quote: int, psql: psycopg.Connection[Any]
) -> None:
    with Session(engine) as db:
        row = db.get(QuoteRequest, quote)
        assert row
        manager = CheckpointManager(db, commit=True)
        manager.start_processing(row)
        assert row.worker_id == manager.worker_id
        row.claude_payload_json = {"marca": "x"}
        manager.save_checkpoint(row, STAGE.AI_ANALYSIS_DONE, 30, {"tested_products": []})
        assert (row.processing_checkpoint, row.progress, row.resume_data) == (
            "AI_ANALYSIS_DONE",
            30,
            {"tested_products": []},
        )

    assert column(psql, quote, "claude_payload_json") == {"marca": "x"}


# — whose transaction it is —


def test_nothing_is_committed_unless_asked(
    engine: sqlalchemy.Engine, quote: int, psql: psycopg.Connection[Any]
) -> None:
    with Session(engine) as db:
        manager = CheckpointManager(db)
        manager.start_processing(quote)
        manager.save_checkpoint(quote, STAGE.AI_ANALYSIS_DONE)
        assert column(psql, quote, "status") == "PENDING"
        db.rollback()
        assert column(psql, quote, "status") == "PENDING"
        manager.start_processing(quote)
        db.commit()

    assert column(psql, quote, "status") == "PROCESSING"


def test_with_commit_a_zombies_unsaved_changes_are_rolled_back(
    engine: sqlalchemy.Engine, quote: int, psql: psycopg.Connection[Any]
) -> None:
    with Session(engine) as zombie, Session(engine) as other:
        slow = CheckpointManager(zombie, commit=True)
        row = zombie.get(QuoteRequest, quote)
        assert row
        slow.start_processing(row)
        let_pass(psql, quote)
        CheckpointManager(other, commit=True).start_processing(quote)

        row.claude_payload_json = {"by": "the zombie"}
        zombie.flush()
        with pytest.raises(LeaseLost):
            slow.save_checkpoint(row, STAGE.AI_ANALYSIS_DONE)

    assert column(psql, quote, "claude_payload_json") is None


def test_a_connection_that_cannot_commit_is_not_asked_to() -> None:
    with pytest.raises(ConfigurationError, match="commit"):
        AsyncCheckpointManager(object(), commit=True)


# — the fence —


@pytest.fixture
def pair(engine: sqlalchemy.Engine) -> Iterator[tuple[CheckpointManager, CheckpointManager]]:
    """Two workers, each with a connection of its own."""
    url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url) as one, psycopg.connect(url) as two:
        yield (
            CheckpointManager(one, worker_id="same", commit=True),
            CheckpointManager(two, worker_id="same", commit=True, max_attempts=3),
        )


Pair = tuple[CheckpointManager, CheckpointManager]


def test_what_another_holds_alive_is_neither_resumed_nor_started(
    pair: Pair, quote: int, psql: psycopg.Connection[Any]
) -> None:
    first, second = pair
    first.start_processing(quote)
    first.save_checkpoint(quote, STAGE.AI_ANALYSIS_DONE)

    assert not second.can_resume(quote)
    for ask in (second.start_processing, second.get_resume_checkpoint):
        with pytest.raises(RowConflict) as refused:
            ask(quote)
        assert refused.value.code == "held"
    assert column(psql, quote, "worker_id") == first.worker_id
    assert second.recover_stuck() == Recovered([], [])


def test_a_zombies_writes_miss_and_it_is_told(pair: Pair, quote: int, psql: psycopg.Connection[Any]) -> None:
    zombie, other = pair
    zombie.start_processing(quote)
    zombie.save_checkpoint(quote, STAGE.AI_ANALYSIS_DONE, resume_data={"kept": True})
    let_pass(psql, quote)

    assert other.can_resume(quote)
    assert other.get_resume_checkpoint(quote) == STAGE.AI_ANALYSIS_DONE
    before = column(psql, quote, "quote_requests::text")
    for write in (
        lambda: zombie.save_checkpoint(quote, STAGE.INIT, 1, {"kept": False}),
        lambda: zombie.update_heartbeat(quote),
        lambda: zombie.complete_processing(quote, "DONE"),
    ):
        with pytest.raises(LeaseLost, match=other.worker_id):
            write()

    assert column(psql, quote, "quote_requests::text") == before
    assert column(psql, quote, "attempt_number") == 1
    other.complete_processing(quote, "DONE")


def test_of_many_that_want_a_silent_row_one_gets_it(
    quote: int, empty_database_url: str, psql: psycopg.Connection[Any]
) -> None:
    with psycopg.connect(empty_database_url) as connection:
        CheckpointManager(connection, commit=True).start_processing(quote)
    let_pass(psql, quote)

    async def one(ready: asyncio.Barrier) -> str:
        async with an_async_connection(empty_database_url) as db:
            await ready.wait()
            try:
                await AsyncCheckpointManager(db, commit=True).start_processing(quote)
            except RowConflict as refused:
                return refused.code
            return "taken"

    async def all_at_once() -> list[str]:
        ready = asyncio.Barrier(8)
        return await asyncio.gather(*(one(ready) for _ in range(8)))

    assert Counter(asyncio.run(all_at_once())) == {"taken": 1, "held": 7}
    assert column(psql, quote, "attempt_number") == 1


@pytest.mark.parametrize("status", ["CANCELLED", "DONE", "ERROR"])
def test_what_was_cancelled_or_ended_meanwhile_stays_so(
    status: str, pair: Pair, quote: int, psql: psycopg.Connection[Any]
) -> None:
    manager, other = pair
    manager.start_processing(quote)
    psql.execute("update quote_requests set status = %s", (status,))

    with pytest.raises(LeaseLost, match=status):
        manager.complete_processing(quote, "DONE")
    with pytest.raises(RowConflict) as refused:
        other.start_processing(quote)

    assert refused.value.code == "ended"
    assert not manager.can_resume(quote)
    assert column(psql, quote, "status") == status


def test_the_same_process_twice_is_two_workers(pair: Pair) -> None:
    first, second = pair

    assert first.worker_id != second.worker_id
    assert len(CheckpointManager(object(), worker_id="w" * 300).worker_id) <= 100


# — recovery —


def test_a_row_is_given_to_others_a_limited_number_of_times(
    pair: Pair, quote: int, empty_database_url: str, psql: psycopg.Connection[Any]
) -> None:
    for _ in range(4):
        with psycopg.connect(empty_database_url) as connection:
            CheckpointManager(connection, commit=True, max_attempts=3).start_processing(quote)
        let_pass(psql, quote)
    judge = pair[1]

    assert column(psql, quote, "attempt_number") == 3
    assert not judge.can_resume(quote)
    with pytest.raises(RowConflict) as refused:
        judge.start_processing(quote)
    assert refused.value.code == "exhausted"
    assert judge.recover_stuck() == Recovered([], [quote])
    assert column(psql, quote, "status") == "ERROR"
    assert "3 times" in column(psql, quote, "error_message")
    assert column(psql, quote, "worker_id is null and completed_at is not null")


def test_what_was_given_back_and_lost_by_the_queue_is_found_again(
    pair: Pair, quote: int, psql: psycopg.Connection[Any]
) -> None:
    worker, sweep = pair
    worker.start_processing(quote)
    worker.save_checkpoint(quote, STAGE.SHOPPING_SEARCH_DONE)
    let_pass(psql, quote)

    assert sweep.recover_stuck() == Recovered([quote], [])
    assert column(psql, quote, "worker_id") is None
    assert column(psql, quote, "last_heartbeat") is not None
    assert sweep.recover_stuck() == Recovered([], [])
    for _ in range(5):
        let_pass(psql, quote)
        assert sweep.recover_stuck() == Recovered([quote], [])

    assert column(psql, quote, "attempt_number") == 1, "nobody had taken it, so nobody died of it"
    assert sweep.can_resume(quote)
    assert sweep.get_resume_checkpoint(quote) == STAGE.SHOPPING_SEARCH_DONE
    assert column(psql, quote, "attempt_number") == 1


def test_a_row_without_a_heartbeat_is_not_lost(pair: Pair, psql: psycopg.Connection[Any]) -> None:
    running, waiting = made(psql, "PROCESSING"), made(psql)
    sweep = pair[0]

    assert sweep.recover_stuck() == Recovered([], [])
    assert column(psql, running, "last_heartbeat") is not None
    let_pass(psql, running)
    let_pass(psql, waiting)
    assert sweep.recover_stuck() == Recovered([running], []), "a long queue is no fault"
    let_pass(psql, waiting, "1 hour")
    assert sweep.recover_stuck() == Recovered([waiting], [])


def test_a_recovery_takes_no_more_than_it_is_asked_to(pair: Pair, psql: psycopg.Connection[Any]) -> None:
    quotes = [made(psql, "PROCESSING") for _ in range(5)]
    sweep = pair[0]
    sweep.recover_stuck()
    for quote in quotes:
        let_pass(psql, quote)

    taken = sweep.recover_stuck(limit=3).again + sweep.recover_stuck(limit=3).again

    assert sorted(taken) == quotes


def test_times_are_the_databases_whatever_the_zone_of_a_session(
    quote: int, empty_database_url: str, psql: psycopg.Connection[Any]
) -> None:
    with psycopg.connect(empty_database_url) as east, psycopg.connect(empty_database_url) as west:
        east.execute("set time zone 'Asia/Tokyo'")
        west.execute("set time zone 'America/Sao_Paulo'")
        east.commit()
        west.commit()
        CheckpointManager(east, commit=True).start_processing(quote)

        assert not CheckpointManager(west, commit=True).can_resume(quote)
        assert CheckpointManager(west, commit=True).recover_stuck() == Recovered([], [])
        let_pass(psql, quote)
        assert CheckpointManager(east, commit=True).recover_stuck() == Recovered([quote], [])


def test_a_start_keeps_what_was_paid_for_unless_told_otherwise(pair: Pair, quote: int) -> None:
    manager = pair[0]
    manager.start_processing(quote)
    manager.save_checkpoint(quote, STAGE.AI_ANALYSIS_DONE, 30, {"answer": 1})

    manager.start_processing(quote)
    assert manager.get_resume_checkpoint(quote) == STAGE.AI_ANALYSIS_DONE
    assert manager.get_resume_data(quote) == {"answer": 1}
    manager.start_processing(quote, afresh=True)
    assert manager.get_resume_checkpoint(quote) == STAGE.INIT
    assert manager.get_resume_data(quote) == {}


# — other tables, wrong tables —

OTHER = Table(
    name="Lote %",
    schema="outra",
    key="código",
    status="situação",
    checkpoint="etapa",
    heartbeat="sinal",
    worker="quem",
    data="dados",
    attempts="vezes",
    started=None,
    completed=None,
    progress=None,
    error=None,
    processing="andando",
    waiting=(),
    failed="erro",
)


def test_any_table_will_do(empty_database_url: str, psql: psycopg.Connection[Any]) -> None:
    psql.execute("create schema outra")
    psql.execute("create type outra.situação as enum ('andando', 'pronto', 'erro')")
    psql.execute(
        'create table outra."Lote %%" ("código" uuid primary key default gen_random_uuid(), "situação" outra.situação, '
        "etapa text, sinal timestamptz, quem text, dados jsonb, vezes smallint)".replace("%%", "%")
    )
    row = psql.execute("""insert into outra."Lote %" ("situação") values ('andando') returning "código" """).fetchone()
    assert row
    with psycopg.connect(empty_database_url) as db:
        manager = CheckpointManager(db, table=OTHER, commit=True)
        manager.start_processing({"código": row[0]})
        manager.save_checkpoint(str(row[0]), "lido", 50, {"a": 1})
        assert manager.get_resume_checkpoint(row[0]) == "lido"
        assert manager.recover_stuck() == Recovered([], [])
        manager.complete_processing(row[0], "pronto")
        assert not manager.can_resume(row[0])


async def test_any_table_will_do_with_asyncpg(empty_database_url: str, psql: psycopg.Connection[Any]) -> None:
    psql.execute("create type state as enum ('PROCESSING', 'ERROR', 'DONE')")
    psql.execute("alter table quote_requests alter status type state using status::state")
    quote = made(psql, "PROCESSING")
    async with a_connection_of_asyncpg(empty_database_url) as db:
        manager = AsyncCheckpointManager(db)
        await manager.start_processing(quote)
        await manager.save_checkpoint(quote, "read", 12.5, {"a": "ç"})
        let_pass(psql, quote)
        assert await manager.recover_stuck() == Recovered([quote], [])


def test_a_table_that_does_not_fit_is_told_in_words(empty_database_url: str, psql: psycopg.Connection[Any]) -> None:
    psql.execute("create table heartbeats (id int, status text, last_heartbeat text)")
    with psycopg.connect(empty_database_url) as db:
        with pytest.raises(ConfigurationError, match="nowhere is not there"):
            CheckpointManager(db, table=Table(name="nowhere")).can_resume(1)
        with pytest.raises(ConfigurationError, match="has no column attempt_number"):
            CheckpointManager(db, table=Table(name="heartbeats")).can_resume(1)
        psql.execute("alter table quote_requests alter last_heartbeat type text")
        with pytest.raises(ConfigurationError, match="last_heartbeat of quote_requests is text"):
            CheckpointManager(db).can_resume(1)


def test_an_object_of_another_table_is_refused(engine: sqlalchemy.Engine, quote: int) -> None:
    with Session(engine) as db:
        row = db.get(QuoteRequest, quote)
        with pytest.raises(ConfigurationError, match="row of quote_requests, and not of another"):
            CheckpointManager(db, table=Table(name="another")).start_processing(row)
        with pytest.raises(ConfigurationError, match="not in the database yet"):
            CheckpointManager(db).start_processing(QuoteRequest())


def test_what_cannot_be_saved_is_refused_before_anything_is_written(pair: Pair, quote: int) -> None:
    manager = pair[0]
    manager.start_processing(quote)

    with pytest.raises(Unstorable):
        manager.save_checkpoint(quote, STAGE.AI_ANALYSIS_DONE, resume_data={"what": object()})
    with pytest.raises(Unstorable):
        manager.save_checkpoint(quote, STAGE.AI_ANALYSIS_DONE, resume_data={"what": float("nan")})
    with pytest.raises(ConfigurationError, match="101"):
        manager.save_checkpoint(quote, STAGE.AI_ANALYSIS_DONE, progress_percentage=101)
    with pytest.raises(ConfigurationError, match="not a final status"):
        manager.complete_processing(quote, "PROCESSING")
    with pytest.raises(ConfigurationError, match="not a text"):
        manager.complete_processing(quote, 7)
    with pytest.raises(RowConflict) as missing:
        manager.start_processing(quote + 1)

    assert missing.value.code == "missing"
    assert manager.get_resume_checkpoint(quote) == STAGE.INIT


# — kills —


@pytest.mark.crash
@pytest.mark.parametrize("stage", ["ai", "shopping", "product/2", "final"])
def test_a_task_killed_anywhere_is_resumed_and_no_saved_stage_is_done_again(
    stage: str, quote: int, empty_database_url: str, psql: psycopg.Connection[Any], tmp_path: Path
) -> None:
    log = tmp_path / "paid.log"

    def run(until: str) -> subprocess.Popen[str]:
        command = [sys.executable, HERE / "quote_task.py", empty_database_url, str(quote), log, until]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    with run(stage) as task:
        assert task.stdout
        assert task.stdout.readline() == f"saved {stage}\n"
        task.kill()
    let_pass(psql, quote)
    with run("nowhere") as task:
        assert task.stdout
        assert task.stdout.read() == "completed\n"

    paid = log.read_text().splitlines()
    assert Counter(paid) == Counter(["ai", "shopping", *(f"product/{number}" for number in range(1, 6)), "final"])
    assert column(psql, quote, "status") == "DONE"
    assert column(psql, quote, "attempt_number") == 1
    assert json.loads(column(psql, quote, "resume_data::text"))["tested_products"] == [
        f"product/{number}" for number in range(1, 6)
    ]
