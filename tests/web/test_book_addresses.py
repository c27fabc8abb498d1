"""The addresses of books: a browser is answered with pages there, and a program with the data of /api/v1."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from retoma import Retoma
from retoma.pipelines import BOOKS
from retoma.pipelines.books.ports import Editor
from retoma.providers import BlobStore, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.testing import drain
from retoma.web import site

from .conftest import House, Open, code, hosting

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "books"))

from sample_books import CountingEditor, TextExtractor, book_text

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
PROGRAMS = [
    {"Accept": "application/json"},
    {"Accept": "*/*"},
    {"Accept": ""},
    {"Accept": "application/json, text/html;q=0.9"},
]
FILE = {"file": ("livro.md", book_text().encode())}


@dataclass
class Shelf:
    """A house with one book in it; a worker works when it is told to."""

    house: House
    given: dict[type, object]
    id: str = ""

    def work(self) -> None:
        asyncio.run(drain(Retoma(settings=self.house.settings, extensions=[BOOKS], providers=self.given)))

    def newest(self) -> tuple[str | None, str, str, str | None]:
        """The newest row of the audit."""
        (row,) = self.house.ask(lambda app: app.audit.page(limit=1))
        return row.route, row.action, row.outcome, row.object_id


@pytest.fixture
def given(tmp_path: Path) -> dict[type, object]:
    return {BlobStore: FolderBlobs(tmp_path / "blobs"), Extractor: TextExtractor(), Editor: CountingEditor()}


@pytest.fixture
def shelf(open_house: Open, given: dict[type, object]) -> Shelf:
    shelf = Shelf(open_house(extensions=[BOOKS], providers=given), given)
    shelf.id = shelf.house.client.post("/api/v1/books", files=FILE).json()["session_id"]
    return shelf


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each["Accept"] or "nothing")
def test_a_program_that_looks_is_answered_as_under_api(shelf: Shelf, program: dict[str, str]) -> None:
    shelf.work()

    for path in ("/books", f"/books/{shelf.id}", f"/books/{shelf.id}/chapters/2"):
        told = shelf.house.client.get(path, headers=program)
        same = shelf.house.client.get(f"/api/v1{path}", headers=program)
        assert (told.status_code, told.headers["content-type"]) == (200, "application/json"), path
        assert told.json() == same.json(), path
        assert "accept" in _varies(told), path


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each["Accept"] or "nothing")
def test_a_program_that_sends_and_resumes_is_answered_as_under_api(shelf: Shelf, program: dict[str, str]) -> None:
    client = shelf.house.client

    sent = client.post("/books", files=FILE, headers=program)
    resumed = [client.post(f"/books/{shelf.id}/resume", headers=program) for _ in range(2)]

    assert (sent.status_code, sent.json()["session_id"], sent.json()["found"]) == (202, shelf.id, True)
    assert client.get(sent.headers["location"], headers=program).json()["id"] == shelf.id
    assert [each.status_code for each in resumed] == [202, 202]
    assert len({each.json()["job_id"] for each in resumed}) == 1
    assert client.get(resumed[0].headers["location"], headers=program).json()["id"] == shelf.id
    assert all("accept" in _varies(each) for each in (sent, *resumed))


def test_a_browser_is_answered_with_pages_at_the_same_addresses(shelf: Shelf) -> None:
    client = shelf.house.client
    sent = client.post("/books", files=FILE, headers=BROWSER)
    resumed = client.post(f"/books/{shelf.id}/resume", headers=BROWSER)
    shelf.work()

    assert (sent.status_code, sent.headers["location"]) == (303, f"/books/{shelf.id}?told=found")
    assert (resumed.status_code, resumed.headers["location"]) == (303, f"/books/{shelf.id}?told=resumed")
    for path in ("/books", f"/books/{shelf.id}", f"/books/{shelf.id}/chapters/2"):
        shown = client.get(path, headers=BROWSER)
        assert (shown.status_code, shown.headers["content-type"]) == (200, "text/html; charset=utf-8"), path
        assert "accept" in _varies(shown), path
    assert all("accept" in _varies(each) for each in (sent, resumed))


def test_what_a_program_has_seen_is_not_sent_again_and_no_page_is_taken_for_it(shelf: Shelf) -> None:
    seen = shelf.house.client.get(f"/books/{shelf.id}")

    again = shelf.house.client.get(f"/books/{shelf.id}", headers={"If-None-Match": seen.headers["etag"]})
    page = shelf.house.client.get(f"/books/{shelf.id}", headers=BROWSER | {"If-None-Match": seen.headers["etag"]})

    assert (again.status_code, "accept" in _varies(again)) == (304, True)
    assert page.status_code == 200


def test_a_key_may_at_these_addresses_what_it_may_under_api(shelf: Shelf) -> None:
    client, reader = shelf.house.client, shelf.house.key("read")
    other = shelf.house.key("read", "content:read", "submit", "operate", pipelines=("documents",))

    asked = [
        ("GET", "/books"),
        ("GET", f"/books/{shelf.id}"),
        ("GET", f"/books/{shelf.id}/chapters/1"),
        ("POST", "/books"),
        ("POST", f"/books/{shelf.id}/resume"),
    ]
    answers = {
        holder: [
            (client.request(method, path, headers=key), client.request(method, f"/api/v1{path}", headers=key))
            for method, path in asked
        ]
        for holder, key in (("reader", reader), ("other", other), ("nobody", {}))
    }

    for pairs in answers.values():
        assert [named.status_code for named, _ in pairs] == [under.status_code for _, under in pairs]
    assert [named.status_code for named, _ in answers["reader"]] == [200, 200, 403, 403, 403]
    assert {code(named) for named, _ in answers["other"]} == {(403, "pipelines_limited")}
    assert {code(named) for named, _ in answers["nobody"]} == {(401, "auth_missing")}
    assert all("accept" in _varies(named) for pairs in answers.values() for named, _ in pairs)


def test_what_is_done_and_seen_at_these_addresses_is_in_the_audit(shelf: Shelf) -> None:
    shelf.work()
    client, id = shelf.house.client, shelf.id

    client.post("/books", files={"file": ("outro.md", book_text(2).encode())})
    sent = shelf.newest()
    client.post(f"/books/{id}/resume")
    resumed = shelf.newest()
    client.get(f"/books/{id}/chapters/1")
    looked = shelf.newest()

    assert (sent[:3], sent[3] != id) == (("POST /books", "book.send", "done"), True)
    assert resumed == ("POST /books/{id}/resume", "book.resume", "done", id)
    assert looked == ("GET /books/{id}/chapters/{number}", "book.get", "looked", id)


def test_a_name_that_the_api_does_not_know_is_refused_there_too(shelf: Shelf) -> None:
    assert code(shelf.house.client.get("/books?state=done")) == (422, "validation_failed")
    assert shelf.house.client.get("/books?utm_source=x", headers=BROWSER).status_code == 200


def test_the_methods_of_these_addresses_are_told_to_everybody(shelf: Shelf) -> None:
    for headers in ({"Accept": "*/*"}, BROWSER):
        refused = shelf.house.client.put("/books", headers=headers)
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")
        assert shelf.house.client.head("/books", headers=headers).status_code == 200


def test_a_book_that_is_sent_under_a_prefix_is_found_where_the_answer_says(
    shelf: Shelf, given: dict[type, object]
) -> None:
    theirs = FastAPI(openapi_url=None)
    theirs.mount("/their/x", site(Retoma(settings=shelf.house.settings, extensions=[BOOKS], providers=given)))

    with hosting(theirs) as url, httpx2.Client(base_url=url, timeout=240) as client:
        sent = client.post("/their/x/books", files=FILE)

        assert sent.headers["location"].startswith("/their/x/"), sent.headers["location"]
        assert client.get(sent.headers["location"]).json()["id"] == shelf.id
        assert client.get(sent.json()["result_url"]).status_code == 200


def _varies(answer: httpx2.Response) -> set[str]:
    return {each.strip().lower() for each in answer.headers.get("vary", "").split(",")}
