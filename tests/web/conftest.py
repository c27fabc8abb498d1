"""The API as its callers meet it: a real server on a free port, a real client, a real database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import argon2
import httpx2
import psycopg
import pytest
import uvicorn
from fastapi import FastAPI

import retoma.sync
from retoma import Job, Retoma, Retry, Run, Settings, pipeline
from retoma.app.extension import Extension
from retoma.testing import drain
from retoma.web.http import errors
from retoma.web.pages import PageRoute
from retoma.web.server.server import listen, served, url_of


@pipeline("double")
async def double(number: int, run: Run) -> int:
    return await run.step("double", lambda: number * 2)


@pipeline("stumble", retry=Retry(attempts=1))
async def stumble(name: str, run: Run) -> str:
    await run.step("look", name.upper)
    raise ValueError(f"cannot read {name}")


@pipeline("wait")
async def wait(_name: str, run: Run) -> str:
    return await run.wait_for("answer", str)


@pipeline("anything")
async def anything(value: Any, _run: Run) -> Any:
    return value


PIPELINES = (double, stumble, wait, anything)


@contextmanager
def serving(
    app: Retoma, *, host: str = "127.0.0.1", allow_hosts: tuple[str, ...] = (), rounds: bool = True
) -> Iterator[str]:
    """The address of a server for *app*, in a thread of its own."""
    told: list[Callable[[], None]] = []
    ready = threading.Event()
    listening = listen(host, 0)

    async def serve() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        told.append(lambda: loop.call_soon_threadsafe(stop.set))
        async with app, served(app, listening, allow_hosts=allow_hosts, rounds=rounds):
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(240), "the server did not start"
        yield url_of(listening)
    finally:
        for tell in told:
            tell()
        thread.join(20)


@contextmanager
def hosting(site: FastAPI, **options: Any) -> Iterator[str]:
    """The address of an application of somebody's own, as they would run it: *options* are uvicorn's."""
    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(site, lifespan="on", log_config=None, ws="none", **options))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
    thread.start()
    try:
        yield url_of(listening)
    finally:
        server.should_exit = True
        thread.join(20)


@dataclass
class House:
    """A server, a client of it, and the database behind it by other ways."""

    url: str
    client: httpx2.Client
    settings: Settings

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return self.client.get(f"/api/v1{path}", **options)

    def post(self, path: str, json: Any = None, **options: Any) -> httpx2.Response:
        return self.client.post(f"/api/v1{path}", **({} if json is None else {"json": json}), **options)

    def enqueue(self, name: str, input: Any, **options: Any) -> int:
        """Queue a job by the front door."""
        with retoma.sync.Retoma(settings=self.settings, pipelines=PIPELINES) as app:
            return app.enqueue(app.registry.pipeline(name), input, **options).id

    def work(self) -> None:
        """Run what is ready."""
        asyncio.run(drain(Retoma(settings=self.settings, pipelines=PIPELINES)))

    def job(self, id: int) -> Job:
        with retoma.sync.Retoma(settings=self.settings) as app:
            return app.jobs.get(id)

    def ask(self, question: Callable[[Retoma], Any]) -> Any:
        """Something of the front door."""

        async def asked() -> Any:
            async with Retoma(settings=self.settings, pipelines=PIPELINES) as app:
                return await question(app)

        return asyncio.run(asked())

    def key(self, *scopes: str, pipelines: tuple[str, ...] = (), expires: timedelta | None = None) -> dict[str, str]:
        """The header of a new key."""
        text, _ = self.ask(lambda app: app.access.create("test", scopes, pipelines=pipelines, expires=expires))
        return {"Authorization": f"Bearer {text}"}


Open = Callable[..., House]


@pytest.fixture(autouse=True)
def described_codes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every problem that a test meets is one that its route says it may answer with."""
    told: list[tuple[str, str, str]] = []
    explained = errors.explained

    def listen_in(request: Any, error: Exception, language: str) -> Any:
        problem, headers = explained(request, error, language)
        route = request.scope.get("route")
        codes = getattr(route, "codes", None)
        page = isinstance(route, PageRoute) and not request.url.path.startswith("/documents")
        heard = problem.code != "request_incomplete"  # a caller who has gone hears nothing
        if codes is not None and problem.code not in codes and heard and not page:
            told.append((request.method, request.url.path, problem.code))
        return problem, headers

    monkeypatch.setattr(errors, "explained", listen_in)
    yield
    assert not told, "say so in needs(refuses=…) of the endpoint"


@pytest.fixture(autouse=True)
def quick_passwords(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Argon2 with little work, but for tests that ask for *real_passwords*, because they are about what it costs."""
    if "real_passwords" not in request.fixturenames:
        monkeypatch.setattr(argon2, "PasswordHasher", partial(argon2.PasswordHasher, 1, 1024, 2))


@pytest.fixture
def real_passwords() -> None:
    """Asked for by a test of what a password costs."""


@pytest.fixture
def open_house(settings: Settings) -> Iterator[Open]:
    """Serves the test's database; settings by keyword."""
    with ExitStack() as stack:

        def make(
            *,
            pipelines: tuple[Any, ...] | None = None,
            extensions: Sequence[Extension] = (),
            providers: dict[type, object] | None = None,
            allow_hosts: tuple[str, ...] = (),
            **given: Any,
        ) -> House:
            # A machine that is loaded four times over answers late, and only tests of lateness are about that.
            changed = Settings.load(**{**settings.model_dump(), "web_deadline_seconds": 240.0, **given})
            # Without a word about what is served: the pipelines of these tests.
            usual = () if extensions else PIPELINES
            own = usual if pipelines is None else pipelines
            app = Retoma(settings=changed, pipelines=own, extensions=extensions, providers=providers)
            url = stack.enter_context(serving(app, allow_hosts=allow_hosts))
            return House(url, stack.enter_context(httpx2.Client(base_url=url, timeout=240)), changed)

        yield make


@pytest.fixture
def house(open_house: Open) -> House:
    return open_house()


@pytest.fixture(scope="session")
def still_house(server: str, template: str, worker_id_of_run: str) -> Iterator[House]:
    """One for all tests that only look, or are refused: nothing is in it, and nobody has a key."""
    with _lasting(server, template, f"still_{worker_id_of_run}") as house:
        yield house


@pytest.fixture(scope="session")
def odd_house(server: str, template: str, worker_id_of_run: str) -> Iterator[House]:
    """One for tests that fill it with whatever it takes."""
    with _lasting(server, template, f"odd_{worker_id_of_run}") as house:
        yield house


@contextmanager
def _lasting(server: str, template: str, name: str) -> Iterator[House]:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"drop database if exists {name}")
        connection.execute(f"create database {name} template {template}")
    settings = Settings.load(database_url=urlsplit(server)._replace(path=f"/{name}").geturl())
    with (
        # Without rounds: they draw random numbers beside Hypothesis, which takes that for a strategy's doing.
        serving(Retoma(settings=settings, pipelines=PIPELINES), rounds=False) as url,
        httpx2.Client(base_url=url, timeout=240) as client,
    ):
        yield House(url, client, settings)


def code(response: httpx2.Response) -> tuple[int, str]:
    """Status and code of a problem, which is one in every respect."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    problem = response.json()
    assert problem.keys() == {
        "type", "title", "status", "detail", "instance", "code", "correlation_id", "retryable", "errors",
    }  # fmt: skip
    assert problem["status"] == response.status_code
    assert problem["type"] == f"urn:retoma:problem:{problem['code']}"
    assert problem["correlation_id"] == response.headers["x-correlation-id"]
    return response.status_code, problem["code"]


_BLOCKED = """
select distinct waiting.pid
  from pg_locks as waiting
 where not waiting.granted
   and exists (select
                 from pg_locks as held
                where held.pid = waiting.pid
                  and held.database = (select oid from pg_database where datname = current_database()))
"""


def blocked(psql: psycopg.Connection) -> int:
    """How many statements wait for a lock in this database; what waits in those of other tests is none of ours."""
    return psql.execute(_BLOCKED).rowcount
