"""The desk of quotes over HTTP: the routes and fields that its users know, letter by letter."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))

from market import Bill, Product, a_market

from retoma import Retoma
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.ports import Market, Refusal
from retoma.testing import drain

from .conftest import House, Open, code

DESK = "/api/system"
STUCK = """
update quotes.quote_requests set status = 'PROCESSING', worker_id = 'ana#1', started_at = now() - interval '1 hour',
       last_heartbeat = now() - interval '11 minutes', processing_checkpoint = 'SHOPPING_SEARCH_DONE' where id = %s
"""
NONE = [Product(name, "100", refused=Refusal.BLOCKED_BY_SITE) for name in "abc"]


class Desk:
    """A house with quotes, and its library."""

    def __init__(self, house: House, market: Market) -> None:
        self.house = house
        self.market = market

    def ask(self, question: Callable[[Quotes], Awaitable[Any]]) -> Any:
        async def asked() -> Any:
            providers: dict[type, object] = {Market: self.market}
            async with Retoma(settings=self.house.settings, extensions=[QUOTES], providers=providers) as app:
                return await question(Quotes(app))

        return asyncio.run(asked())

    def work(self) -> None:
        self.ask(lambda library: drain(library.app))

    def get(self, path: str, **options: Any) -> Any:
        return self.house.client.get(f"{DESK}{path}", **options)

    def post(self, path: str, **options: Any) -> Any:
        return self.house.client.post(f"{DESK}{path}", **options)


@pytest.fixture
def desk(open_house: Open, tmp_path: Path) -> Desk:
    market = a_market(Bill(tmp_path / "bill.log"))
    return Desk(open_house(extensions=[QUOTES], providers={Market: market}), market)


def test_health_and_the_four_figures_with_two_decimals(desk: Desk, psql: psycopg.Connection) -> None:
    empty = desk.get("/processing-stats").json()
    desk.ask(lambda library: library.create("Mesa"))
    desk.work()
    psql.execute("update quotes.quote_requests set started_at = completed_at - interval '45.3249 seconds' where id = 1")
    desk.ask(lambda library: library.create("Cadeira"))
    psql.execute(STUCK.encode(), [2])

    assert desk.get("/health").json() == {"status": "healthy"}
    assert empty == {
        "total_processing": 0, "stuck_count": 0, "by_checkpoint": {}, "avg_processing_time_seconds": None,
    }  # fmt: skip
    assert desk.get("/processing-stats").json() == {
        "total_processing": 1,
        "stuck_count": 1,
        "by_checkpoint": {"SHOPPING_SEARCH_DONE": 1},
        "avg_processing_time_seconds": 45.32,
    }


def test_a_stuck_quote_is_listed_recovered_and_goes_on(desk: Desk, psql: psycopg.Connection) -> None:
    desk.ask(lambda library: library.create("x" * 150))
    psql.execute(STUCK.encode(), [1])
    listed = desk.get("/stuck-quotes").json()
    alone = desk.post("/recover-quote/1")
    again = desk.post("/recover-quote/1")
    unknown = desk.post("/recover-quote/99")

    assert listed["count"] == 1
    (stuck,) = listed["quotes"]
    assert set(stuck) == {
        "id", "created_at", "checkpoint", "last_heartbeat", "worker_id", "batch_job_id", "input_text",
    }  # fmt: skip
    assert (stuck["checkpoint"], stuck["worker_id"], len(stuck["input_text"])) == (
        "SHOPPING_SEARCH_DONE", "ana#1", 100,
    )  # fmt: skip
    assert alone.status_code == 200
    assert alone.json()["previous_checkpoint"] == "SHOPPING_SEARCH_DONE"
    assert alone.json()["attempt_number"] == 2
    assert (again.status_code, unknown.status_code) == (409, 404)
    desk.work()
    assert desk.get("/processing-stats").json()["total_processing"] == 0


def test_everything_that_is_stuck_is_recovered_at_once_and_what_is_old_is_given_up(
    desk: Desk, psql: psycopg.Connection
) -> None:
    for _ in range(3):
        desk.ask(lambda library: library.create("Mesa"))
    psql.execute(STUCK.encode(), [1])
    psql.execute(STUCK.encode(), [2])
    psql.execute(STUCK.encode(), [3])
    psql.execute("update quotes.quote_requests set started_at = now() - interval '25 hours' where id = 3")
    old = desk.post("/cleanup-old").json()
    done = desk.post("/recover-stuck").json()

    assert (old["count"], old["message"]) == (1, "1 cotação antiga encerrada com erro.")
    assert (done["count"], done["message"]) == (2, "2 cotações recuperadas.")
    assert old["task_id"]
    assert [str(each.status) for each in desk.ask(lambda library: library.quotes())] == ["ERROR", "PENDING", "PENDING"]


def test_a_quote_that_somebody_works_on_is_not_recovered(desk: Desk, psql: psycopg.Connection) -> None:
    desk.ask(lambda library: library.create("Mesa"))
    psql.execute(STUCK.encode(), [1])
    psql.execute(
        "with worker as (insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once,"
        " lease_seconds, lease_expires_at) values ('ana', 'h', 1, '1', '{}', '{}', 1, 30, now() + interval '1 min')"
        " returning id) update retoma.jobs set state = 'running', worker_id = worker.id, claimed_at = now(),"
        " attempt = 1, fence = 1 from worker"
    )

    assert desk.post("/recover-quote/1").status_code == 409
    assert desk.post("/recover-stuck").json()["count"] == 0


def test_a_batch_is_looked_at_and_resumed_with_its_errors(open_house: Open, tmp_path: Path) -> None:
    market = a_market(Bill(tmp_path / "bill.log"), NONE)
    desk = Desk(open_house(extensions=[QUOTES], providers={Market: market}), market)
    desk.ask(lambda library: library.create_batch(b"descricao\nMesa\nCadeira\n", name="Lote"))
    desk.work()
    before = desk.get("/batch-status/1").json()
    resumed = desk.post("/resume-batch/1", params={"reset_errors": "true"})
    after = desk.get("/batch-status/1").json()

    assert before == {
        "batch_id": 1,
        "batch_status": "ERROR",
        "total_items": 2,
        "completed_items": 0,
        "failed_items": 2,
        "status_distribution": {"ERROR": 2},
        "stuck_quotes": 0,
        "checkpoint_distribution": {"FINALIZATION": 2},
        "progress_percentage": 100.0,
    }
    assert resumed.status_code == 200, resumed.text
    assert {key: resumed.json()[key] for key in ("pending_quotes", "reset_error_quotes")} == {
        "pending_quotes": 2, "reset_error_quotes": 2,
    }  # fmt: skip
    assert (after["batch_status"], after["failed_items"]) == ("PENDING", 0)
    assert desk.get("/batch-status/99").status_code == 404
    assert desk.post("/resume-batch/99").status_code == 404
    assert desk.post("/resume-batch/1", params={"reset_errors": "maybe"}).status_code == 422


def test_a_key_sees_what_its_scopes_say(desk: Desk, psql: psycopg.Connection) -> None:
    desk.ask(lambda library: library.create("Mesa"))
    psql.execute(STUCK.encode(), [1])
    reads, other = desk.house.key("read"), desk.house.key("read", "operate", pipelines=("double",))

    assert desk.get("/stuck-quotes", headers=reads).json()["quotes"][0]["input_text"] is None
    assert code(desk.post("/recover-stuck", headers=reads)) == (403, "scope_required")
    assert code(desk.get("/processing-stats", headers=other)) == (403, "pipelines_limited")
