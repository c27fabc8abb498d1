"""Quotes and lists over HTTP, in the routes and fields that their users know."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))

from market import Bill, Product, a_market
from pictures import drawn, png

from retoma import Retoma
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.ports import Market, Refusal
from retoma.providers import BlobStore
from retoma.providers.folder import FolderBlobs
from retoma.testing import drain

from .conftest import House, Open, code

QUOTE, BATCH = "/api/quotes", "/api/batch-quotes"
OFFERS = [Product("a", "100"), Product("b", "104"), Product("c", "110"), Product("d", "112", refused=Refusal.SOLD_OUT)]
NONE = [Product(name, "100", refused=Refusal.BLOCKED_BY_SITE) for name in "abc"]
LIST = "codigo;descricao;quantidade\n1;Mesa;2\n2;;1\n3;=Cadeira;x\n4;Armário;1\n".encode()
COLUMNS = {
    "status", "input_type", "project_id", "config_version_id", "input_text", "codigo_item", "local", "pesquisador",
    "claude_payload_json", "search_query_final", "google_shopping_response_json", "valor_medio", "valor_minimo",
    "valor_maximo", "variacao_percentual", "error_message", "current_step", "progress_percentage", "step_details",
    "attempt_number", "original_quote_id", "batch_job_id", "batch_index", "processing_checkpoint", "last_heartbeat",
    "worker_id", "resume_data", "started_at", "completed_at",
}  # fmt: skip
"""The columns of a quote, as its first users have them."""


class Office:
    """A house with quotes, and workers for them when they are called."""

    def __init__(self, house: House, providers: dict[type, Any]) -> None:
        self.house = house
        self.client = house.client
        self.providers = providers

    def ask(self, question: Callable[[Quotes], Any]) -> Any:
        async def asked() -> Any:
            async with Retoma(settings=self.house.settings, extensions=[QUOTES], providers=self.providers) as app:
                return await question(Quotes(app))

        return asyncio.run(asked())

    def work(self) -> None:
        self.ask(lambda library: drain(library.app))

    def create(self, text: str = "Mesa", **fields: Any) -> int:
        made = self.client.post(QUOTE, json={"inputText": text, **fields})
        assert made.status_code == 202, made.text
        return int(made.json()["quoteRequestId"])

    def send(self, content: bytes = LIST, name: str = "lista.csv", **fields: str) -> Any:
        return self.client.post(f"{BATCH}/file", files={"file": (name, content)}, data=fields)

    def get(self, path: str, **options: Any) -> Any:
        found = self.client.get(path, **options)
        assert found.status_code == 200, found.text
        return found.json()


Opened = Callable[..., Office]


@pytest.fixture
def opened(open_house: Open, tmp_path: Path) -> Opened:
    def make(offers: list[Product] = OFFERS, **settings: Any) -> Office:
        market = a_market(Bill(tmp_path / "bill.log"), offers)
        providers = {Market: market, BlobStore: FolderBlobs(tmp_path / "blobs")}
        return Office(open_house(extensions=[QUOTES], providers=providers, **settings), providers)

    return make


@pytest.fixture
def office(opened: Opened) -> Office:
    return opened()


# — one item —


@pytest.mark.parametrize(
    "how",
    [
        {"json": {"inputText": "Mesa de  escritório", "codigo": "P-1", "local": "Sala 2", "pesquisador": "Ana"}},
        {"data": {"inputText": "Mesa de  escritório", "codigo": "P-1", "local": "Sala 2", "pesquisador": "Ana"}},
        {
            "files": {
                "inputText": (None, "Mesa de  escritório"),
                "codigo": (None, "P-1"),
                "local": (None, "Sala 2"),
                "pesquisador": (None, "Ana"),
                "project_id": (None, ""),
            }
        },
    ],
    ids=["json", "form", "form with files"],
)
def test_an_item_is_asked_for_and_has_its_price_with_all_that_was_found(office: Office, how: dict[str, Any]) -> None:
    made = office.client.post(QUOTE, **how)
    waits = office.get(made.headers["location"])
    office.work()
    found = office.get(made.json()["status_url"])

    assert (made.status_code, made.json()) == (
        202, {"quoteRequestId": 1, "status": "PENDING", "status_url": "/api/quotes/1"},
    )  # fmt: skip
    assert made.headers["location"] == "/api/quotes/1"
    assert (waits["status"], waits["input_text"], waits["sources"]) == ("PENDING", "Mesa de escritório", [])
    assert found.keys() >= COLUMNS
    assert [found[each] for each in ("codigo_item", "local", "pesquisador", "input_type")] == [
        "P-1", "Sala 2", "Ana", "TEXT",
    ]  # fmt: skip
    assert [found[each] for each in ("status", "processing_checkpoint", "progress_percentage", "current_step")] == [
        "DONE", "COMPLETED", 100, "completed",
    ]  # fmt: skip
    assert [found[each] for each in ("valor_medio", "valor_minimo", "valor_maximo", "variacao_percentual")] == [
        "104.67", "100.00", "110.00", "10.00",
    ]  # fmt: skip
    assert [(each["domain"], each["price_value"], each["is_accepted"]) for each in found["sources"]] == [
        ("a.com.br", "100.00", True), ("b.com.br", "104.00", True), ("c.com.br", "110.00", True),
    ]  # fmt: skip
    assert found["resume_data"]["tested_products"]
    assert found["attempt_number"] == 1


def test_products_that_do_not_count_are_told_with_their_reasons(opened: Opened) -> None:
    office = opened(NONE)
    id = office.create()
    office.work()

    found = office.get(f"{QUOTE}/{id}")

    assert (found["status"], found["sources"]) == ("ERROR", [])
    assert found["failures"][0].keys() >= {
        "url", "domain", "product_title", "google_price", "extracted_price", "failure_reason", "failure_message",
    }  # fmt: skip
    assert {each["failure_reason"] for each in found["failures"]} == {"BLOCKED_BY_SITE"}


def test_the_log_of_a_quote_has_every_request_a_page_at_a_time(office: Office) -> None:
    id = office.create()
    office.work()
    first = office.client.get(f"{QUOTE}/{id}/integration-logs", params={"limit": 3})
    logs, following = list(first.json()["logs"]), first.headers.get("link")
    while following:
        page = office.client.get(re.findall("<(.*)>", following)[0])
        logs, following = logs + page.json()["logs"], page.headers.get("link")

    assert len(first.json()["logs"]) == 3
    calls = office.ask(lambda library: library.calls(id))
    assert [each["id"] for each in logs] == [each.id for each in calls], "the newest first, and none left out"
    searched = next(each for each in logs if each["activity"] == "search/shopping")
    assert (searched["provider"], searched["state"], searched["units"]) == ("shopping", "answered", 1)
    assert searched["request"]
    assert "Mesa" in searched["answer"] or "price" in searched["answer"]
    assert office.client.get(f"{QUOTE}/{id}/integration-logs", params={"limit": 51}).status_code == 422


def test_who_may_not_see_content_sees_how_a_quote_stands(office: Office) -> None:
    id = office.create(pesquisador="Ana")
    office.work()
    reads, other = office.house.key("read"), office.house.key("read", "submit", "operate", pipelines=("double",))
    found = office.get(f"{QUOTE}/{id}", headers=reads)
    log = office.get(f"{QUOTE}/{id}/integration-logs", headers=reads)["logs"]

    assert (found["status"], found["valor_medio"]) == ("DONE", "104.67")
    assert not {"input_text", "pesquisador", "sources", "failures", "resume_data", "claude_payload_json"} & found.keys()
    assert not any({"request", "answer", "error"} & each.keys() for each in log)
    assert "input_text" not in office.get(QUOTE, headers=reads)["quotes"][0]
    for path in ("pdf", "screenshots", "screenshots/1"):
        assert code(office.client.get(f"{QUOTE}/{id}/{path}", headers=reads)) == (403, "scope_required")
    assert code(office.client.post(QUOTE, json={"inputText": "x"}, headers=reads)) == (403, "scope_required")
    assert code(office.client.post(f"{QUOTE}/{id}/cancel", headers=reads)) == (403, "scope_required")
    for method, path in (("GET", QUOTE), ("GET", f"{QUOTE}/{id}"), ("POST", f"{QUOTE}/{id}/cancel"), ("GET", BATCH)):
        assert code(office.client.request(method, path, headers=other)) == (403, "pipelines_limited")


# — many —


def pages(office: Office, path: str, **wanted: Any) -> Iterator[list[int]]:
    """The ids of each page, by the links between them."""
    answered = office.client.get(path, params=wanted)
    while True:
        assert answered.status_code == 200, answered.text
        yield [each["id"] for each in answered.json()["quotes"]]
        if "link" not in answered.headers:
            assert answered.json()["next"] is None
            return
        answered = office.client.get(re.findall("<(.*)>", answered.headers["link"])[0])


def test_quotes_are_found_by_page_and_by_link_and_no_page_is_endless(office: Office) -> None:
    ids = [office.create(f"Mesa {number}") for number in range(5)]

    by_number = [[each["id"] for each in office.get(QUOTE, params={"page": page, "per_page": 2})["quotes"]]
                 for page in (1, 2, 3, 4)]  # fmt: skip

    assert by_number == [[5, 4], [3, 2], [1], []]
    assert list(pages(office, QUOTE, per_page=2)) == by_number[:3]
    assert list(pages(office, QUOTE, per_page=2, page=2)) == by_number[1:3], "a link goes on where the page ended"
    assert sorted(ids) == [1, 2, 3, 4, 5]
    for wrong in ({"per_page": 201}, {"page": 501}, {"page": 0}, {"cursor": "x"}, {"nome": "Mesa"}):
        assert office.client.get(QUOTE, params=wrong).status_code == 422, wrong


def test_quotes_are_filtered(office: Office, psql: psycopg.Connection) -> None:
    project = office.ask(lambda library: library.create_project("Sede")).id
    office.create("Mesa", codigo="P-1")
    office.create("Cadeira", project_id=project)
    office.create("Mesa redonda")
    office.client.post(f"{QUOTE}/3/cancel")
    psql.execute("update quotes.quote_requests set created_at = '2026-03-02T23:30:00Z' where id = 1")

    def found(**wanted: Any) -> list[int]:
        return [each["id"] for each in office.get(QUOTE, params=wanted)["quotes"]]

    assert found(search="mesa") == [3, 1]
    assert found(search="P-1") == [1]
    assert found(status="CANCELLED") == [3]
    assert found(status="PENDING") == [2, 1]
    assert found(project_id=project) == [2]
    assert found(quote_id=2) == [2]
    assert found(date_from="2026-03-02", date_to="2026-03-02") == [1]
    assert found(date_to="2026-03-01") == []
    assert found(date_from="2026-03-03") == [3, 2]
    assert found(date_to="9999-12-31") == [3, 2, 1]
    for wrong in ({"status": "done"}, {"date_from": "ontem"}, {"quote_id": "x"}):
        assert office.client.get(QUOTE, params=wrong).status_code == 422, wrong


# — acting on one —


def test_a_quote_is_cancelled_once_however_often_it_is_asked(office: Office) -> None:
    id = office.create()
    first, again = (office.client.post(f"{QUOTE}/{id}/cancel") for _ in range(2))
    office.work()

    assert [each.status_code for each in (first, again)] == [200, 200]
    assert first.json()["status"] == again.json()["status"] == "CANCELLED"
    assert first.json()["completed_at"] == again.json()["completed_at"]
    found = office.get(f"{QUOTE}/{id}")
    assert (found["status"], found["valor_medio"]) == ("CANCELLED", None)
    rows = office.ask(lambda library: library.app.audit.page())
    outcomes = [each.outcome for each in rows if each.action == "quote.cancel"]
    assert outcomes == ["looked", "done"], "the second answer shows the quote and changes nothing"


def test_a_requote_has_a_number_of_its_own_and_attempts_count_recoveries(
    office: Office, psql: psycopg.Connection
) -> None:
    id = office.create(codigo="P-1")
    refused = office.client.post(f"{QUOTE}/{id}/requote")
    office.client.post(f"{QUOTE}/{id}/cancel")
    made = office.client.post(f"{QUOTE}/{id}/requote", headers={"Idempotency-Key": "again"})
    same = office.client.post(f"{QUOTE}/{id}/requote", headers={"Idempotency-Key": "again"})
    twice = office.client.post(f"{QUOTE}/{id}/requote")
    psql.execute(
        "update quotes.quote_requests set status = 'PROCESSING', started_at = now(), processing_checkpoint = 'INIT',"
        " last_heartbeat = now() - interval '11 minutes' where id = 2"
    )
    recovered = office.client.post("/api/system/recover-quote/2")
    office.work()
    found = office.get(f"{QUOTE}/2")

    assert code(refused) == (409, "conflict")
    assert (made.status_code, made.headers["location"]) == (202, "/api/quotes/2")
    assert made.json() == {
        "quoteRequestId": 2, "status": "PENDING", "status_url": "/api/quotes/2", "original_quote_id": 1,
        "requote_number": 1, "attempt_number": 1,
    }  # fmt: skip
    assert (same.json(), same.headers["idempotency-replayed"]) == (made.json(), "true")
    assert code(twice) == (409, "conflict")
    assert recovered.json()["attempt_number"] == 2
    assert (found["attempt_number"], found["requote_number"], found["original_quote_id"]) == (2, 1, 1)
    assert (found["status"], found["codigo_item"]) == ("DONE", "P-1")
    assert office.get(f"{QUOTE}/1")["requote_number"] == 0


HALT = """
create function halt() returns trigger language plpgsql as $$
begin
    perform pg_advisory_xact_lock(4711);
    return new;
end $$;
select pg_advisory_lock(4711);
"""
# The worker has written that it is done, and has yet to commit: whoever wants the row waits for it.
WRITTEN = """
create trigger halting before insert on retoma.checkpoints for each row when (new.step = 'COMPLETED')
       execute function halt()
"""
# The worker is about to write that it is done, and holds nothing yet.
UNWRITTEN = """
create function halt_the_last() returns trigger language plpgsql as $$
begin
    if current_query() like '%valor_medio = %' then perform pg_advisory_xact_lock(4711); end if;
    return null;
end $$;
create trigger halting before update on quotes.quote_requests for each statement execute function halt_the_last()
"""
HALTED = """
select pid from pg_locks
 where locktype = 'advisory' and objid = 4711 and not granted
   and database = (select oid from pg_database where datname = current_database())
"""
CANCELLING = """
select pid from pg_stat_activity
 where datname = current_database() and wait_event_type = 'Lock' and query like '%CANCELLED%'
"""


def test_a_quote_that_is_cancelled_while_its_end_is_written_is_done_and_the_person_is_told(
    office: Office, psql: psycopg.Connection
) -> None:
    id = office.create()
    psql.execute(HALT.encode())
    psql.execute(WRITTEN.encode())
    with ThreadPoolExecutor(2) as aside:
        working = aside.submit(office.work)
        while not psql.execute(HALTED).fetchall():
            assert not working.done()
        cancelling = aside.submit(office.client.post, f"{QUOTE}/{id}/cancel")
        while not psql.execute(CANCELLING).fetchall():
            assert not cancelling.done(), cancelling.result().text
        psql.execute("select pg_advisory_unlock(4711)")
        answered = cancelling.result()
        working.result()
    found = office.get(f"{QUOTE}/{id}")

    assert code(answered) == (409, "conflict")
    assert (found["status"], found["processing_checkpoint"], found["valor_medio"]) == ("DONE", "COMPLETED", "104.67")
    assert [each["price_value"] for each in found["sources"]] == ["100.00", "104.00", "110.00"]


def test_a_quote_that_is_cancelled_just_before_its_end_is_written_stays_so_and_keeps_what_was_paid_for(
    office: Office, psql: psycopg.Connection
) -> None:
    id = office.create()
    psql.execute(HALT.encode())
    psql.execute(UNWRITTEN.encode())
    with ThreadPoolExecutor(1) as aside:
        working = aside.submit(office.work)
        while not psql.execute(HALTED).fetchall():
            assert not working.done()
        answered = office.client.post(f"{QUOTE}/{id}/cancel")
        psql.execute("select pg_advisory_unlock(4711)")
        working.result()
    found = office.get(f"{QUOTE}/{id}")

    assert (answered.status_code, answered.json()["status"]) == (200, "CANCELLED")
    assert (found["status"], found["processing_checkpoint"], found["worker_id"]) == ("CANCELLED", "FINALIZATION", None)
    assert found["valor_medio"] is None, "what the worker still wrote is nowhere"
    assert [each["price_value"] for each in found["sources"]] == ["100.00", "104.00", "110.00"]
    assert len(office.get(f"{QUOTE}/{id}/integration-logs")["logs"]) >= 4


# — files of one —


def test_the_report_of_a_quote_is_a_draft_until_it_is_closed(office: Office) -> None:
    id = office.create()
    office.work()
    found = office.client.get(f"{QUOTE}/{id}/pdf")

    assert (found.status_code, found.headers["content-type"]) == (200, "application/pdf")
    assert found.headers["content-disposition"] == 'attachment; filename="cotacao-1.pdf"'
    assert found.content.startswith(b"%PDF-")
    looks = [each for each in office.ask(lambda library: library.app.audit.page()) if each.outcome == "looked"]
    assert [(each.object_kind, each.object_id) for each in looks[:1]] == [("quote", "1")]


def test_pictures_are_listed_and_shown_and_where_there_is_none_it_is_said(
    office: Office, psql: psycopg.Connection, tmp_path: Path
) -> None:
    id = office.create()
    office.work()

    async def once() -> Any:
        yield b"\x89PNG picture"

    asyncio.run(FolderBlobs(tmp_path / "blobs").put("quotes/pictures/aa", once()))
    psql.execute(
        "update quotes.quote_sources set screenshot_file_id = 'quotes/pictures/aa', screenshot_sha256 = 'ab'"
        " where key = 'a|100'"
    )
    psql.execute("update quotes.quote_sources set without_screenshot = 'There is no Chromium.' where key = 'b|104'")
    with_one, without, *_ = office.get(f"{QUOTE}/{id}/screenshots")["screenshots"]
    picture = office.client.get(with_one["screenshot_url"])

    assert with_one.keys() == {
        "id", "url", "domain", "captured_at", "evidence_sha256", "screenshot_sha256", "screenshot_url",
        "without_screenshot",
    }  # fmt: skip
    assert (picture.headers["content-type"], picture.content) == ("image/png", b"\x89PNG picture")
    assert picture.headers["content-security-policy"].startswith("default-src 'none'")
    assert (without["screenshot_url"], without["without_screenshot"]) == (None, "There is no Chromium.")
    assert code(office.client.get(f"{QUOTE}/{id}/screenshots/{without['id']}")) == (404, "not_found")
    assert code(office.client.get(f"{QUOTE}/{id}/screenshots/999")) == (404, "not_found")


# — lists —


def test_a_text_is_a_list_of_items(office: Office) -> None:
    made = office.client.post(f"{BATCH}/text", json={"inputText": "Mesa; Cadeira\n ;Armário", "name": "Sala 2"})
    place = made.headers["location"]
    office.work()
    batch = office.get(place)
    quotes = office.get(f"{place}/quotes")["quotes"]

    assert (made.status_code, place) == (202, "/api/batch-quotes/1")
    assert made.json() == {
        "id": 1, "new": True, "status": "PENDING", "total_items": 3, "problem_rows": 0, "problems": [],
        "status_url": place,
    }  # fmt: skip
    assert [batch[each] for each in ("name", "status", "input_type", "completed_items", "progress_percentage")] == [
        "Sala 2", "COMPLETED", "TEXT_BATCH", 3, 100.0,
    ]  # fmt: skip
    assert [each["input_text"] for each in quotes] == ["Armário", "Cadeira", "Mesa"]
    assert {each["batch_job_id"] for each in quotes} == {1}
    assert [each["batch_index"] for each in quotes] == [2, 1, 0]


def test_a_file_is_a_list_and_each_row_that_is_not_taken_is_told(office: Office) -> None:
    made = office.send(name="lista.csv", pesquisador="Ana").json()
    batch = office.get(f"{BATCH}/1")

    assert (made["total_items"], made["problem_rows"]) == (2, 2)
    assert [(each["line"], each["problem"]) for each in made["problems"]] == [
        (3, "description_missing"), (4, "quantity_unreadable"),
    ]  # fmt: skip
    assert batch["problems"] == made["problems"]
    assert (batch["filename"], batch["input_type"], batch["total_items"]) == ("lista.csv", "FILE_BATCH", 2)
    assert batch["columns"] == {"description": "descricao", "code": "codigo", "quantity": "quantidade"}
    assert [each["pesquisador"] for each in office.get(f"{BATCH}/1/quotes")["quotes"]] == ["Ana", "Ana"]


def test_a_column_that_nobody_knows_can_be_named(office: Office) -> None:
    content = b"o que;chapa\nMesa;1\n"
    refused = office.send(content)
    taken = office.send(content, coluna_description="o que", coluna_code="chapa")

    assert code(refused) == (422, "validation_failed")
    assert [each["code"] for each in refused.json()["errors"]] == ["list_without_descriptions"]
    assert taken.status_code == 202
    assert [each["codigo_item"] for each in office.get(f"{BATCH}/1/quotes")["quotes"]] == ["1"]


def test_batches_are_listed_a_page_at_a_time(office: Office) -> None:
    project = office.ask(lambda library: library.create_project("Sede")).id
    for number in range(3):
        office.client.post(f"{BATCH}/text", json={"inputText": f"Mesa {number}", "project_id": project})
    office.client.post(f"{BATCH}/text", json={"inputText": "Cadeira"})
    first = office.client.get(BATCH, params={"limit": 2, "project_id": project})
    second = office.client.get(re.findall("<(.*)>", first.headers["link"])[0])

    assert [each["id"] for each in first.json()["batches"]] == [3, 2]
    assert [each["id"] for each in second.json()["batches"]] == [1]
    assert second.json()["next"] is None
    assert {each["status"] for each in first.json()["batches"]} == {"PENDING"}
    assert office.client.get(BATCH, params={"limit": 51}).status_code == 422
    statuses = [office.get(f"{BATCH}/1/quotes", params={"status": each})["quotes"] for each in ("PENDING", "DONE")]
    assert [len(each) for each in statuses] == [1, 0]


def test_a_batch_in_error_is_resumed_and_then_stopped_for_good(opened: Opened) -> None:
    office = opened(NONE)
    office.client.post(f"{BATCH}/text", json={"inputText": "Mesa; Cadeira"})
    office.work()
    failed = office.get(f"{BATCH}/1")
    resumed = office.client.post(f"{BATCH}/1/resume", params={"reset_errors": "true"})
    waits = office.get(f"{BATCH}/1")
    stopped, again = (office.client.post(f"{BATCH}/1/cancel") for _ in range(2))

    assert (failed["status"], failed["failed_items"]) == ("ERROR", 2)
    assert {name: resumed.json()[name] for name in ("pending_quotes", "reset_error_quotes")} == {
        "pending_quotes": 2, "reset_error_quotes": 2,
    }  # fmt: skip
    assert (waits["status"], waits["failed_items"]) == ("PENDING", 0)
    assert (stopped.json()["cancelled_quotes"], stopped.json()["status"]) == (2, "CANCELLED")
    assert (again.status_code, again.json()["cancelled_quotes"]) == (200, 0)
    office.work()
    assert office.get(f"{BATCH}/1")["status_distribution"] == {"CANCELLED": 2}


def test_a_batch_that_is_done_cannot_be_stopped_any_more(office: Office) -> None:
    office.client.post(f"{BATCH}/text", json={"inputText": "Mesa"})
    office.work()

    assert code(office.client.post(f"{BATCH}/1/cancel")) == (409, "already_finished")
    assert office.get(f"{BATCH}/1")["status_distribution"] == {"DONE": 1}


def test_what_a_batch_cost_is_told_by_provider_in_dollars_and_reais(office: Office) -> None:
    async def priced(library: Quotes) -> int:
        for model in ("search", "product"):
            await library.app.calls.set_price("shopping", model, unit=Decimal("0.01"))
        return (await library.create_project("Sede", reais_per_dollar="5")).id

    project = office.ask(priced)
    office.client.post(f"{BATCH}/text", json={"inputText": "Mesa; Cadeira", "project_id": project})
    office.client.post(f"{BATCH}/text", json={"inputText": "Armário"})
    office.work()
    told, without = (office.get(f"{BATCH}/{id}/costs") for id in (1, 2))

    (shopping,) = [each for each in told["providers"] if each["provider"] == "shopping"]
    assert (shopping["calls"], float(shopping["dollars"]), shopping["reais"]) == (8, 0.08, "0.40")
    assert (float(told["total_dollars"]), told["total_reais"], float(told["total_in_doubt"])) == (0.08, "0.40", 0)
    assert (float(without["total_dollars"]), without["total_reais"]) == (0.04, None)


def test_a_batch_is_taken_away_as_pdf_as_a_spreadsheet_and_as_csv(office: Office) -> None:
    office.send()
    office.work()
    files = {each: office.client.get(f"{BATCH}/1/download/{each}") for each in ("pdf", "excel", "xlsx", "csv")}
    rows = list(csv.DictReader(io.StringIO(files["csv"].content.decode("utf-8-sig")), delimiter=";"))

    assert {each.status_code for each in files.values()} == {200}
    assert files["pdf"].content.startswith(b"%PDF-")
    assert files["excel"].content.startswith(b"PK\x03\x04")
    assert files["xlsx"].headers["content-disposition"] == 'attachment; filename="lote-1.xlsx"'
    assert files["csv"].headers["content-type"] == "text/csv; charset=utf-8"
    assert [(each["Linha"], each["Situação"], each["Valor médio (R$)"]) for each in rows] == [
        ("2", "DONE", "104,67"), ("3", "NÃO ACEITA", ""), ("4", "NÃO ACEITA", ""), ("5", "DONE", "104,67"),
    ]  # fmt: skip
    assert rows[1]["Erro"].startswith("description_missing: ")
    assert rows[2]["Descrição"] == "3 | =Cadeira | x", "no row is lost"
    reads = office.house.key("read")
    assert code(office.client.get(f"{BATCH}/1/download/csv", headers=reads)) == (403, "scope_required")


def test_a_cell_of_the_csv_is_never_a_formula(office: Office) -> None:
    office.client.post(f"{BATCH}/text", json={"inputText": "=1+1"})

    content = office.client.get(f"{BATCH}/1/download/csv").content.decode("utf-8-sig")

    assert '"\'=1+1"' in content


# — photographs —


def test_a_photograph_with_a_description_is_quoted_and_kept(office: Office, psql: psycopg.Connection) -> None:
    picture = drawn("JPEG")
    sent = {"images": ("mesa.jpg", picture), "inputText": (None, "Mesa")}
    id = office.client.post(QUOTE, files=sent).json()["quoteRequestId"]
    office.work()
    found = office.get(f"{QUOTE}/{id}")
    kept = psql.execute("select input_kind, input_sha256 from quotes.quote_requests").fetchone()

    assert (found["status"], found["input_type"], found["input_text"]) == ("DONE", "IMAGE", "Mesa")
    assert kept == ("image/jpeg", hashlib.sha256(picture).hexdigest())


def test_a_photograph_alone_needs_a_model_that_sees_and_nothing_is_paid_without_one(office: Office) -> None:
    id = office.client.post(QUOTE, files={"images": ("mesa.png", png())}).json()["quoteRequestId"]
    office.work()
    found = office.get(f"{QUOTE}/{id}")

    assert (found["status"], found["error_message"].partition(":")[0]) == ("ERROR", "image_needs_model")
    assert office.get(f"{QUOTE}/{id}/integration-logs")["logs"] == []


def test_photographs_are_a_batch_by_their_names_and_a_bomb_among_them_is_told(office: Office) -> None:
    files = [("images", (name, content)) for name, content in (
        ("P-1.png", png()), ("P-2.png", png(50_000, 50_000)), ("P-3.webp", drawn("WEBP")))]  # fmt: skip
    made = office.client.post(f"{BATCH}/images", files=files, data={"name": "Fotos"})
    batch = office.get(made.headers["location"])
    again = office.client.post(f"{BATCH}/images", files=files, data={"name": "Fotos"})

    assert made.status_code == 202, made.text
    assert [(each["line"], each["problem"]) for each in made.json()["problems"]] == [(2, "image_too_many_pixels")]
    assert [batch[each] for each in ("name", "input_type", "total_items", "problem_rows")] == [
        "Fotos", "IMAGE_BATCH", 2, 1,
    ]  # fmt: skip
    assert [each["codigo_item"] for each in office.get(f"{BATCH}/1/quotes")["quotes"]] == ["P-3", "P-1"]
    assert (again.json()["new"], again.headers["location"]) == (False, "/api/batch-quotes/1")


# — what an asset is worth —

WORN = {"conservation": "REGULAR", "years_used": 3, "years_left": 6, "book_value": "50.00"}


def test_an_asset_is_asked_for_with_its_condition_and_answered_with_price_factors_and_value(office: Office) -> None:
    project = office.ask(lambda library: library.create_project("Bens", report={"factors": {}}))
    told = office.create("Mesa", project_id=project.id, **WORN)
    form = {"inputText": "Mesa", "project_id": str(project.id), **{name: str(each) for name, each in WORN.items()}}
    typed = office.client.post(QUOTE, files={name: (None, each) for name, each in form.items()})
    office.work()
    found = office.get(f"{QUOTE}/{told}")
    same = office.get(f"{QUOTE}/{typed.json()['quoteRequestId']}")
    blind = office.get(f"{QUOTE}/{told}", headers=office.house.key("read"))

    assert (found["conservation"], found["years_used"], found["years_left"]) == ("REGULAR", 3, 6)
    worth = found["valuation"]
    # 0.7 × 0.4 + 0.9 × 0.3 + 0.7 × 0.3, and the median of 100, 104 and 110
    assert {name: Decimal(str(worth[name])) for name in ("market_price", "factor", "asset_value", "difference")} == {
        "market_price": Decimal("104.00"),
        "factor": Decimal("0.76"),
        "asset_value": Decimal("79.04"),
        "difference": Decimal("29.04"),
    }
    assert (worth["movement"], Decimal(str(worth["ec_weight"]))) == ("REVALUATION", Decimal("0.4"))
    assert same["valuation"] == worth
    assert "valuation" not in blind


def test_a_condition_that_lacks_a_part_is_refused_and_nothing_is_begun(
    office: Office, psql: psycopg.Connection
) -> None:
    half = office.client.post(QUOTE, json={"inputText": "Mesa", "conservation": "BOM"})
    wrong = office.client.post(QUOTE, json={"inputText": "Mesa", **WORN, "conservation": "NOVO"})
    portuguese = office.client.post(
        QUOTE, json={"inputText": "Mesa", "conservation": "BOM"}, headers={"Accept-Language": "pt-BR"}
    )

    assert code(half) == code(wrong) == (422, "validation_failed")
    assert "years_used is missing" in half.text
    assert "falta years_used" in portuguese.text
    assert psql.execute("select count(*) from quotes.quote_requests").fetchone() == (0,)


def test_a_list_says_which_columns_hold_the_condition(office: Office) -> None:
    content = b"item;x;y;z\nMesa;BOM;1;9\n"
    sent = office.send(
        content,
        coluna_description="item",
        coluna_conservation="x",
        coluna_years_used="y",
        coluna_years_left="z",
    )
    (quote,) = office.get(f"{BATCH}/{sent.json()['id']}/quotes")["quotes"]

    assert (quote["conservation"], quote["years_used"], quote["years_left"]) == ("BOM", 1, 9)


def test_an_item_has_up_to_five_photographs_and_a_sixth_is_refused_with_nothing_kept(
    office: Office, psql: psycopg.Connection
) -> None:
    files = [("images", (f"{each}.png", png(shade=100 + each))) for each in range(6)]
    made = office.client.post(QUOTE, files=files[:5])
    refused = office.client.post(QUOTE, files=files)

    shown = psql.execute("select input_more from quotes.quote_requests").fetchall()
    assert (made.status_code, code(refused)) == (202, (413, "too_many_files"))
    assert [len(each[0]) for each in shown] == [4]
    assert psql.execute("select count(*) from retoma.loose_blobs").fetchone() == (0,)


def test_photographs_called_alike_but_for_a_number_are_one_item_where_that_is_asked_for(office: Office) -> None:
    files = [("images", (name, png(shade=each))) for each, name in enumerate(("7_1.png", "7_2.png", "8.png"), 1)]

    grouped = office.client.post(f"{BATCH}/images", params={"group": "name"}, files=files)
    plain = office.client.post(f"{BATCH}/images", files=files)

    assert (grouped.json()["total_items"], plain.json()["total_items"]) == (2, 3)
