"""The front door: what is wrong is said when the app is built or opened, with what to do about it."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

import retoma.errors
import retoma.sync
from retoma import Reject, Retoma, Run, Settings, SyncRun, pipeline
from retoma.commands.options import LOOKS
from retoma.errors import (
    ConfigurationError,
    DatabaseError,
    DatabaseUnreachable,
    RetomaError,
    SchemaMismatch,
    UnknownPipeline,
)
from retoma.model.job import JobPage
from retoma.run.registry import Registry
from retoma.store import queues
from retoma.store.looking import AT_MOST

AppWith = Callable[..., Awaitable[Retoma]]


@pipeline("note")
async def note(text: str, _run: Run) -> str:
    return text


# — definitions —


def test_a_pipeline_is_still_its_function() -> None:
    assert asyncio.run(note("a", None)) == "a"  # type: ignore[arg-type]
    assert (note.name, note.queue, note.is_async) == ("note", "note", True)


def test_two_pipelines_of_one_name_are_refused() -> None:
    @pipeline("note")
    async def other(text: str, _run: Run) -> str:
        return text

    with pytest.raises(ConfigurationError, match="Two pipelines are called 'note'") as caught:
        Retoma(pipelines=[note, other])
    assert caught.value.next


def plain(text: str, _run: SyncRun) -> str:
    return text


@pytest.mark.parametrize(
    ("given", "what", "next"),
    [
        ([plain], "plain is a plain function", 'Write @pipeline("plain") above it.'),
        (["note"], "'note' is only a name", "Pass the function that has @pipeline('note') above it"),
        ([3], "a value of type int", "Pass a function that has @pipeline"),
        (note, "One pipeline was given where a list of them is needed", "Write pipelines=[...]"),
    ],
)
@pytest.mark.parametrize("door", [Retoma, retoma.sync.Retoma])
def test_what_is_no_pipeline_is_refused_in_words_when_the_app_is_built(
    door: Callable[..., object], given: object, what: str, next: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(what)) as caught:
        door(pipelines=given)

    assert caught.value.next.startswith(next)


@pytest.mark.parametrize(("given", "next"), [(note, "List it in pipelines=[...] instead."), (plain, "Pass Extension(")])
def test_what_is_no_extension_is_refused_in_words_when_the_app_is_built(given: Any, next: str) -> None:
    with pytest.raises(ConfigurationError, match="extension") as caught:
        Retoma(extensions=[given])

    assert caught.value.next.startswith(next)


@pytest.mark.parametrize(
    ("url", "what", "next"),
    [
        ("sqlite:///x", "begins with sqlite://", "Write postgresql://user:password@host"),
        ("mysql://me:hunter2@host/db", "begins with mysql://", "Write postgresql://user:password@host"),
        ("me:hunter2@host", "no address of that kind", "Write postgresql://user:password@host"),
        ("postgresql+asyncpg://me:hunter2@host/db", "as SQLAlchemy writes it", "Write postgresql:// instead"),
        ([note], "a value of type list", "Write Retoma("),
    ],
)
def test_an_address_of_another_database_is_refused_when_the_app_is_built(url: Any, what: str, next: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(what)) as caught:
        Retoma(url, settings=Settings.load())

    assert caught.value.next.startswith(next)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("given", ["note", plain, None])
async def test_what_is_no_pipeline_is_refused_in_words_wherever_one_is_asked_for(app_with: AppWith, given: Any) -> None:
    app = await app_with(note)
    asked: list[Awaitable[object]] = [
        app.enqueue(given, "a"),
        app.enqueue_many(given, ["a"]),
        app.batch(given, ["a"], name="letters"),
        app.batches.open(given, name="letters"),
        app.batches.fill(1, given, ["a"]),
        app.jobs.output(given, 1),
        app.schedules.put(given, "a", name="daily", cron="0 3 * * *"),
    ]

    for each in asked:
        with pytest.raises(ConfigurationError, match="A pipeline is needed here") as caught:
            await each
        assert caught.value.next


def test_a_pipeline_that_is_not_here_is_told_with_those_that_are() -> None:
    front = Registry(None, pipelines=[note], providers={}, settings=None)

    assert front.pipeline("note") is note
    with pytest.raises(UnknownPipeline, match="no pipeline 'nothing'; it has note") as far:
        front.pipeline("nothing")
    with pytest.raises(UnknownPipeline) as near:
        front.pipeline("notes")
    assert far.value.next == "Add it to pipelines=[…] of the app, or name another app."
    assert near.value.next == "Did you mean 'note'?"
    with pytest.raises(UnknownPipeline, match="it has none"):
        Registry(None, pipelines=[], providers={}, settings=None).pipeline("note")


def test_a_provider_that_nobody_provides_is_told_when_the_app_is_built() -> None:
    class Chat: ...

    @pipeline("asking")
    async def asking(_: str, _run: Run, *, chat: Chat) -> None: ...

    with pytest.raises(ConfigurationError, match="'asking' asks for chat: Chat, and nobody provides one") as caught:
        Retoma(pipelines=[asking])
    assert caught.value.next == "Pass providers={Chat: ...} to Retoma."
    assert Retoma(pipelines=[asking], providers={Chat: Chat()}).registry.provided["asking"].keys() == {"chat"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "Upper Case"}, "cannot be called 'Upper Case'"),
        ({"name": ""}, "cannot be called ''"),
        ({"name": "a", "queue": "a/b"}, "A queue cannot be called 'a/b'"),
        ({"name": "a", "timeout": 0}, "timeout must be more than 0 seconds .* and is 0"),
        ({"name": "a", "step_timeout": -1}, "step_timeout must be more than 0 seconds .* and is -1"),
        ({"name": "a", "expires": float("nan")}, "expires must be more than 0 seconds .* and is nan"),
        ({"name": "a", "timeout": float("inf")}, "timeout must be .* at most 100 years, and is inf"),
        ({"name": "a", "lane_at_once": 1}, "needs lane="),
        ({"name": "a", "lane": str, "lane_at_once": 0}, "at least 1"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_pipeline_that_cannot_be_is_refused_where_it_is_defined(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        pipeline(**options)


def test_a_decorator_without_a_name_is_answered_with_the_line_to_write() -> None:
    with pytest.raises(ConfigurationError, match="stands above 'read-page' without a name") as caught:

        @pipeline  # type: ignore[arg-type]
        async def read_page(_: str, _run: Run) -> None: ...

    assert caught.value.next == 'Write @pipeline("read-page").'


def test_a_handler_of_another_shape_is_refused_with_an_example() -> None:
    async def no_run(text: str) -> None: ...

    async def no_annotation(text, run: Run) -> None: ...

    async def provider_without_annotation(text: str, run: Run, *, chat) -> None: ...

    async def wrong_run(text: str, run: SyncRun) -> None: ...

    def wrong_plain_run(text: str, run: Run) -> None: ...

    async def unknown_annotation(text: "Nowhere", run: Run) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    async def not_json(text: psycopg.Connection, run: Run) -> None: ...  # type: ignore[type-arg]

    wrong: list[Callable[..., Any]] = [
        no_run, no_annotation, provider_without_annotation, wrong_run, wrong_plain_run, unknown_annotation, not_json,
    ]  # fmt: skip
    for handler in wrong:
        with pytest.raises(ConfigurationError) as caught:
            pipeline("wrong")(handler)
        assert caught.value.next, handler.__name__


# — opening —


async def test_an_app_that_is_not_open_says_so(settings: Settings) -> None:
    app = Retoma(settings=settings)

    with pytest.raises(ConfigurationError, match="not open") as caught:
        await app.jobs.get(1)
    assert "async with app" in caught.value.next


async def test_an_app_may_be_opened_twice_and_is_closed_with_the_last(settings: Settings) -> None:
    app = Retoma(settings=settings, pipelines=[note])
    async with app:
        async with app:
            receipt = await app.enqueue(note, "a")
        assert (await app.jobs.get(receipt.id)).id == receipt.id
    with pytest.raises(ConfigurationError):
        await app.jobs.get(receipt.id)
    async with app:
        assert (await app.jobs.get(receipt.id)).id == receipt.id


async def test_a_database_without_tables_is_told_and_upgraded_when_asked(empty_database_url: str) -> None:
    app = Retoma(empty_database_url, pipelines=[note])
    with pytest.raises(SchemaMismatch) as caught:
        await app.open()
    assert "upgrade" in caught.value.next

    await app.open(upgrade=True)
    assert (await app.enqueue(note, "a")).new
    await app.close()


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("postgresql://someone:secret@127.0.0.1:1/nowhere", DatabaseUnreachable),
        ("postgresql://someone:secret@host.invalid/nowhere", DatabaseUnreachable),
        ("mysql://someone:secret@host/nowhere", ConfigurationError),
        ("postgresql://someone:secret@host:port/nowhere", DatabaseError),
        ("postgresql://someone:secret%zz@host/nowhere", DatabaseError),
    ],
)
async def test_a_database_that_cannot_be_used_is_told_without_its_password(url: str, error: type[RetomaError]) -> None:
    with pytest.raises(error) as caught:
        await Retoma(url).open()

    assert "secret" not in str(caught.value)
    assert caught.value.next


async def test_a_query_of_a_pipelines_own_may_be_asked(app_with: AppWith) -> None:
    app = await app_with(note)
    await app.enqueue(note, "a")

    assert [queue.name for queue in await app.fetch(queues.all())] == ["note"]


# — errors —


def test_every_error_stands_in_the_tree_at_the_top_of_its_room() -> None:
    drawn = retoma.errors.__doc__ or ""
    kinds = [
        name
        for name, value in vars(retoma.errors).items()
        if isinstance(value, type) and issubclass(value, RetomaError)
    ]

    assert [name for name in kinds if name not in drawn] == []


def test_an_error_says_what_happened_and_what_to_do_next() -> None:
    error = RetomaError("It is broken.", next="Mend it.")

    assert (error.message, error.next, str(error)) == ("It is broken.", "Mend it.", "It is broken. Mend it.")
    assert str(RetomaError("It is broken.")) == "It is broken."
    assert not issubclass(Reject, Exception), "an ending is let through by 'except Exception'"


def test_an_address_counts_also_beside_settings(database_url: str) -> None:
    settings = Settings.load(database_url="postgresql://elsewhere/other", lease_seconds=30)

    app = Retoma(database_url, settings=settings)

    assert app.settings.database_url == database_url
    assert app.settings.lease_seconds == 30
    assert Retoma(settings=settings).settings.database_url == "postgresql://elsewhere/other"


async def test_what_is_rare_is_found_behind_more_jobs_than_a_page_looks_at(app_with: AppWith) -> None:
    app = await app_with(note)
    rare = await app.enqueue(note, "a", queue="rare")
    await app.jobs.cancel(rare.id)
    waiting = await app.enqueue(note, "b", queue="rare")
    many = "insert into retoma.jobs (queue, pipeline, max_attempts, timeout_seconds, input, state, finished_at)"
    async with await psycopg.AsyncConnection.connect(app.database.url, autocommit=True) as connection:
        await connection.execute(
            f"{many} select 'many', 'note', 1, 60, '1', 'completed', now() from generate_series(1, %s)",
            [(LOOKS + 1) * AT_MOST],
        )

    page = await app.jobs.page(queue="rare")

    assert ([each.id for each in page.jobs], page.next) == ([waiting.id, rare.id], None)
    assert await app.jobs.page(queue="nowhere") == JobPage([], None)
    assert [each.id for each in await app.jobs.find(queue="rare", state="queued")] == [waiting.id]


async def test_an_app_opens_as_many_connections_as_its_pool_may_have_and_no_more(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    app = await app_with(note, pool_connections=50)
    psql.execute("select pg_advisory_lock(72)")

    async def wait_in_turn() -> None:
        async with app.transaction() as connection:
            await connection.execute("select pg_advisory_xact_lock_shared(72)")

    def waiting() -> int:
        ((found,),) = psql.execute(
            "select count(*) from pg_locks where locktype = 'advisory' and objid = 72 and not granted"
            " and database = (select oid from pg_database where datname = current_database())"
        ).fetchall()
        return int(found)

    turns = [asyncio.create_task(wait_in_turn()) for _ in range(80)]
    while waiting() < 50:
        await asyncio.sleep(0.01)
    ((opened,),) = psql.execute(
        "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'retoma'"
    ).fetchall()
    psql.execute("select pg_advisory_unlock(72)")
    await asyncio.gather(*turns)

    assert opened == 50
