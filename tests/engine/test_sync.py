"""The door without await: the same words, the same answers."""

import inspect
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import retoma
from retoma import JobState, Retry, Run, Settings, pipeline
from retoma.errors import ConfigurationError, Conflict, DatabaseUnreachable, KeyTaken, NotFound, SchemaMismatch
from retoma.store import jobs
from retoma.sync import Retoma
from retoma.testing import age, drain


@pipeline("note", retry=Retry(attempts=1, wait=0.0))
async def note(text: str, run: Run) -> str:
    if text == "fail":
        raise ValueError(text)
    if text == "ask":
        return await run.wait_for("answer", str)
    return await run.step("upper", str.upper, text)


@pytest.fixture
def app(settings: Settings) -> Iterator[Retoma]:
    with Retoma(settings=settings, pipelines=[note]) as app:
        yield app


async def work(app: Retoma) -> int:
    """What a worker of the async door does with the queue."""
    return await drain(retoma.Retoma(settings=app.settings, pipelines=[note]))


def public(door: type) -> dict[str, Any]:
    return {name: value for name, value in vars(door).items() if not name.startswith("_")}


def test_both_doors_have_the_same_words_with_the_same_parameters() -> None:
    ours, theirs = public(Retoma), public(retoma.Retoma)

    assert theirs.keys() - ours.keys() == {"worker", "ask", "embed", "call"}
    assert ours.keys() - theirs.keys() == set()
    for name, method in ours.items():
        if callable(method):
            mine = list(inspect.signature(method).parameters.values())
            other = list(inspect.signature(theirs[name]).parameters.values())
            assert [(each.name, each.kind, each.default) for each in mine] == [
                (each.name, each.kind, each.default) for each in other
            ], name
            assert method.__doc__, name


def test_the_words_of_the_constructor_are_the_same_too() -> None:
    assert (
        inspect.signature(Retoma.__init__).parameters.keys()
        == inspect.signature(retoma.Retoma.__init__).parameters.keys()
    )


async def test_a_job_is_queued_worked_on_and_read(app: Retoma) -> None:
    receipt = app.enqueue(note, "hello", key="k")
    many = app.enqueue_many(note, (text for text in ["a", "b"]))

    assert await work(app) == 3
    assert app.jobs.wait(receipt.id, timeout=5).state is JobState.COMPLETED
    assert app.jobs.output(note, receipt.id) == "HELLO"
    assert [job.id for job in app.jobs.find(state="completed")] == [many[1].id, many[0].id, receipt.id]
    assert [each.ending for each in app.jobs.attempts(receipt.id)] == ["completed"]
    assert [each.value for each in app.jobs.checkpoints(receipt.id)] == ['"HELLO"']
    assert app.workers.metrics(app.settings.worker_label).jobs_completed == 3
    assert [each.alive for each in app.workers.all(gone=True)] == [False]
    assert app.workers.all() == []
    assert [job.id for job in app.fetch(jobs.one(receipt.id))] == [receipt.id]


async def test_what_can_be_asked_of_a_job_can_be_asked_here(app: Retoma) -> None:
    asking = app.enqueue(note, "ask")
    failing = app.enqueue(note, "fail")
    cancelled = app.enqueue(note, "a")
    assert app.jobs.cancel(cancelled.id, reason="no").reason == "no"
    await work(app)

    assert app.jobs.signal(asking.id, "answer", "yes") is True
    assert app.jobs.retry(failing.id, attempts=2).max_attempts == 3
    assert app.jobs.restart(cancelled.id).state is JobState.QUEUED
    await work(app)
    assert app.jobs.output(note, asking.id) == "yes"
    assert [job.id for job in app.jobs.find(state="failed")] == [failing.id]

    await age(app, failing, days=40)
    assert app.system.prune() == 1
    assert app.system.prune(timedelta(0)) == 2
    assert app.jobs.recover() == []


async def test_queues_and_lanes_obey_here(app: Retoma) -> None:
    app.queues.pause("note", reason="a fire")
    app.queues.limit_lane("note", "ana", at_once=1)
    app.enqueue(note, "a", lane="ana")
    assert await work(app) == 0
    assert [(each.name, each.waiting, each.paused_reason) for each in app.queues.all()] == [("note", 1, "a fire")]

    app.queues.resume("note")
    assert await work(app) == 1
    with pytest.raises(ConfigurationError, match="at least 1"):
        app.queues.limit_lane("note", "ana", at_once=0)


def test_schedules_are_kept_here(app: Retoma) -> None:
    schedule = app.schedules.put(note, "tick", name="daily", cron="0 4 * * *", zone="America/Sao_Paulo")

    assert schedule.next_run_at > schedule.now
    assert app.schedules.run("daily") == app.jobs.find()[0].id
    app.schedules.pause("daily")
    assert app.schedules.all()[0].paused_at is not None
    assert app.schedules.resume("daily").paused_at is None
    app.schedules.remove("daily")
    assert app.schedules.all() == []
    for ask in (app.schedules.pause, app.schedules.resume, app.schedules.remove, app.schedules.run):
        with pytest.raises(NotFound, match="no schedule 'daily'"):
            ask("daily")


def test_our_own_transaction_takes_the_job_along(app: Retoma, psql: psycopg.Connection) -> None:
    psql.execute("create table documents (name text)")
    with pytest.raises(RuntimeError), app.transaction() as connection:  # noqa: PT012
        connection.execute("insert into documents values ('a')")
        app.enqueue(note, "a", conn=connection)
        raise RuntimeError
    assert app.jobs.find() == []

    with app.transaction() as connection:
        connection.execute("insert into documents values ('a')")
        app.enqueue(note, "a", conn=connection)
    assert len(app.jobs.find()) == 1


def test_errors_are_the_same_here(app: Retoma) -> None:
    receipt = app.enqueue(note, "a", key="k")
    with pytest.raises(KeyTaken):
        app.enqueue(note, "b", key="k", if_taken="raise")
    with pytest.raises(NotFound):
        app.jobs.get(receipt.id + 1)
    with pytest.raises(Conflict):
        app.jobs.restart(receipt.id)
    with pytest.raises(TimeoutError):
        app.jobs.wait(receipt.id, timeout=0.02, every=0.01)


def test_many_threads_share_one_app(app: Retoma) -> None:
    threads = [
        threading.Thread(target=lambda: [app.enqueue(note, str(number), key=str(number)) for number in range(20)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(app.jobs.find(limit=100)) == 20


def test_a_hint_that_would_come_too_soon_after_the_last_comes_later(app: Retoma, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as ear:
        ear.execute("listen retoma")
        for text in ("a", "b"):
            app.enqueue(note, text)

        assert [hint.payload for hint in ear.notifies(timeout=120, stop_after=2)] == ["note", "note"]


def test_an_app_that_was_closed_before_a_late_hint_sends_the_next(settings: Settings, database_url: str) -> None:
    app = Retoma(settings=settings, pipelines=[note])
    with app:
        for text in ("a", "b"):
            app.enqueue(note, text)
    with app, psycopg.connect(database_url, autocommit=True) as ear:
        app.registry.hint_due("note")
        ear.execute("listen retoma")
        app.enqueue(note, "c")

        assert [hint.payload for hint in ear.notifies(timeout=120, stop_after=1)] == ["note"]


def test_an_app_that_is_not_open_says_so(settings: Settings) -> None:
    app = Retoma(settings=settings)

    with pytest.raises(ConfigurationError, match="not open") as caught:
        app.jobs.get(1)
    assert "with app" in caught.value.next


def test_an_app_may_be_opened_twice_and_closed_twice(settings: Settings) -> None:
    app = Retoma(settings=settings, pipelines=[note])
    with app:
        with app:
            receipt = app.enqueue(note, "a")
        assert app.jobs.get(receipt.id).state is JobState.QUEUED

    with pytest.raises(ConfigurationError):
        app.jobs.get(receipt.id)
    with app:
        assert app.jobs.get(receipt.id).state is JobState.QUEUED


def test_a_database_without_tables_is_told_and_upgraded_when_asked(empty_database_url: str) -> None:
    app = Retoma(empty_database_url, pipelines=[note])
    with pytest.raises(SchemaMismatch) as caught:
        app.open()
    assert caught.value.next

    app.open(upgrade=True)
    assert app.enqueue(note, "a").new
    app.close()


def test_a_database_that_does_not_answer_is_told_without_its_password() -> None:
    app = Retoma("postgresql://someone:secret@127.0.0.1:1/nowhere")

    with pytest.raises(DatabaseUnreachable) as caught:
        app.open()
    assert "127.0.0.1:1" in str(caught.value)
    assert "secret" not in str(caught.value)
