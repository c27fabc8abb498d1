"""Books over HTTP: sent, followed by anybody, looked at in parts, resumed once, judged by readers."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from retoma import Retoma
from retoma.pipelines import BOOKS
from retoma.testing import drain

from .archive import providers
from .conftest import House, Open

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "books"))

import files
from sample_books import CountingEditor

from retoma.pipelines.books.ports import Audit, Chapter, Digest, Editor
from retoma.pipelines.books.remarks import remark
from retoma.providers import RequestRejected

pytestmark = pytest.mark.timeout(600)

PORTUGUESE = {"Accept-Language": "pt-BR,pt;q=0.9"}

BOOK = "\n\n".join(f"## Capítulo {n}\n\n" + " ".join(f"palavra{n}x{each}" for each in range(400)) for n in range(1, 4))


class Library:
    """A house of books; a worker works when it is told to."""

    def __init__(self, house: House, given: dict[type, object]) -> None:
        self.house, self.client, self._given = house, house.client, given

    def send(self, text: str = BOOK, path: str = "/api/v1/books") -> str:
        answered = self.client.post(path, files={"file": ("livro.md", text.encode())})
        assert answered.status_code == 202, answered.text
        return str(answered.json()["session_id"])

    def work(self) -> None:
        asyncio.run(drain(Retoma(settings=self.house.settings, extensions=[BOOKS], providers=self._given)))

    def get(self, path: str) -> Any:
        answered = self.house.get(path)
        assert answered.status_code == 200, answered.text
        return answered.json()

    def follow(self, id: str, last: int | None = None, **more: str) -> list[tuple[int | None, dict[str, Any]]]:
        """The steps to the end of the stream, as a browser hears them."""
        headers = {"Accept": "text/event-stream"} | ({} if last is None else {"Last-Event-ID": str(last)}) | more
        with self.client.stream("GET", f"/api/progress/{id}", headers=headers, timeout=60) as response:
            assert response.status_code == 200, response.read()
            return list(_heard(response.iter_lines()))


def _heard(lines: Iterator[str]) -> Iterator[tuple[int | None, dict[str, Any]]]:
    seq: int | None = None
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "id":
            seq = int(value)
        elif name == "data":
            yield seq, json.loads(value)
            seq = None


@pytest.fixture
def editor() -> CountingEditor:
    return CountingEditor()


@pytest.fixture
def library(open_house: Open, tmp_path: Path, editor: CountingEditor) -> Library:
    given = {**providers(tmp_path / "blobs"), Editor: editor}
    return Library(open_house(extensions=[BOOKS], providers=given), given)


def test_a_book_is_sent_seen_in_parts_and_finished(library: Library, editor: CountingEditor) -> None:
    id = library.send(path="/api/summarize")
    before = library.get(f"/books/{id}")
    assert (before["state"], before["verdict"]) == ("in_progress", None)

    library.work()

    shown = library.get(f"/books/{id}")
    assert (shown["state"], shown["verdict"], shown["resume_at"]) == ("done", "PASS", None)
    assert [each["number"] for each in shown["chapter_list"]] == ["1", "2", "3"]
    assert all(each["done"] and each["passed"] for each in shown["chapter_list"])
    chapter = library.get(f"/books/{id}/chapters/2")
    assert (chapter["verdict"], chapter["reasons"]) == ("PASS", [])
    assert chapter["checkpoint"]["chapter_summary"]["numero"] == "2"
    listed = library.get("/books")
    assert [(each["id"], each["state"]) for each in listed["books"]] == [(id, "done")]
    result = library.client.get(f"/api/result/{id}").json()
    assert (result["status"], result["percentage"], result["errors"]) == ("PASS", 100, [])
    assert len(result["summaries"]) == len(result["coverage_report"]["chapters"]) == 3
    assert "Ponto 0 de 3" in result["summary"]
    assert library.send() == id, "the same content finds its session"
    assert editor.summarised == ["1", "2", "3"]


def test_text_that_is_pasted_is_a_book_too(library: Library) -> None:
    sent = library.client.post("/api/summarize", files={"text": (None, BOOK), "title": (None, "A salina")})

    library.work()

    assert sent.status_code == 202, sent.text
    shown = library.get(f"/books/{sent.json()['session_id']}")
    assert (shown["title"], shown["filename"], shown["state"]) == ("A salina", "A salina.txt", "done")
    empty = library.client.post("/api/summarize", files={"text": (None, "  ")})
    assert empty.json()["code"] == "file_missing"


@pytest.mark.parametrize("path", ["/books", "/api/v1/books", "/api/summarize"])
def test_text_may_come_in_a_plain_form(library: Library, path: str) -> None:
    sent = library.client.post(path, data={"text": BOOK.replace("\n", "\r\n"), "title": "A salina"})
    empty = library.client.post(path, data={"title": "A salina"})

    assert sent.status_code == 202, sent.text
    shown = library.get(f"/books/{sent.json()['session_id']}")
    assert (shown["title"], shown["filename"]) == ("A salina", "A salina.txt")
    assert empty.json()["code"] == "file_missing"


def test_a_body_of_another_kind_is_told_what_is_wanted(library: Library) -> None:
    refused = library.client.post("/books", json={"text": BOOK})

    assert refused.json()["code"] == "multipart_expected"
    assert "multipart/form-data" in refused.json()["detail"]


def test_the_result_is_there_in_part_while_chapters_are_open(library: Library, editor: CountingEditor) -> None:
    editor.fails["2"] = RequestRejected("It is too long.", provider="test", paid=False)
    id = library.send()
    assert library.client.get(f"/api/result/{id}").json()["status"] == "PROCESSING"

    library.work()

    result = library.client.get(f"/api/result/{id}").json()
    assert (result["status"], result["stage"]) == ("FAIL", "error")
    assert "chapter 2" in result["errors"][0]
    assert [each["numero"] for each in result["summaries"]] == ["1", "3"]
    assert result["coverage_report"]["passed"] is False
    assert library.get(f"/books/{id}")["resume_at"] == "2"
    assert library.house.get(f"/books/{id}/chapters/2").status_code == 404


def test_resume_is_idempotent_and_does_only_what_is_open(library: Library, editor: CountingEditor) -> None:
    editor.fails["2"] = RequestRejected("It is too long.", provider="test", paid=False)
    id = library.send()
    library.work()
    editor.fails.clear()
    editor.summarised.clear()

    jobs = {library.house.post(f"/books/{id}/resume").json()["job_id"] for _ in range(3)}
    library.work()

    assert len(jobs) == 1
    assert editor.summarised == ["2"]
    again = library.house.post(f"/books/{id}/resume")
    assert (again.status_code, again.json()["state"]) == (202, "done")


def test_every_listener_hears_every_step_and_none_goes_back(library: Library) -> None:
    id = library.send()
    heard: list[list[tuple[int | None, dict[str, Any]]]] = []
    listeners = [threading.Thread(target=lambda: heard.append(library.follow(id))) for _ in range(3)]
    for each in listeners:
        each.start()

    library.work()
    for each in listeners:
        each.join(60)

    late = library.follow(id)
    assert len(heard) == 3
    assert heard == [late] * 3, "who comes late hears the same from the start"
    assert [seq for seq, _ in late] == [1, 2, 3, 4, 5, 6]
    percentages = [said["percentage"] for _, said in late]
    assert percentages == sorted(percentages)
    assert [said["stage"] for _, said in late] == ["initializing", *["processing"] * 4, "complete"]
    assert late[-1][1]["complete"]
    assert library.follow(id, last=4) == late[4:]


def test_each_listener_hears_the_steps_in_their_own_language(library: Library) -> None:
    id = library.send()
    library.work()

    english, portuguese = library.follow(id), library.follow(id, **PORTUGUESE)

    assert [said["message"] for _, said in english[:3]] == [
        "Book received; its chapters are being found.",
        "0 of 3 chapters done and saved.",
        "1 of 3 chapters done and saved.",
    ]
    assert [said["message"] for _, said in portuguese[-2:]] == [
        "3 de 3 capítulos prontos e salvos.",
        "Todos os capítulos estão prontos.",
    ]
    assert [{**said, "message": ""} for _, said in english] == [{**said, "message": ""} for _, said in portuguese]


class FailingEditor(CountingEditor):
    """An editor whose summary of chapter 2 does not pass its audit."""

    async def summarise(self, chapter: Chapter, **more: Any) -> Digest:
        made = await super().summarise(chapter, **more)
        faults = (remark("words", n=200, least=300, most=500), remark("quotation_page", page=7, text="O mar."))
        return replace(made, audit=Audit(passed=False, errors=faults)) if chapter.number == "2" else made


def test_why_a_chapter_did_not_pass_is_told_in_the_language_of_who_asks(
    open_house: Open, tmp_path: Path, psql: psycopg.Connection
) -> None:
    given = {**providers(tmp_path / "blobs"), Editor: FailingEditor()}
    library = Library(open_house(extensions=[BOOKS], providers=given), given)
    id = library.send()
    library.work()

    told = {
        language: library.client.get(f"/api/v1/books/{id}/chapters/2", headers=headers).json()["reasons"]
        for language, headers in (("en", {}), ("pt", PORTUGUESE))
    }
    result = library.client.get(f"/api/result/{id}", headers=PORTUGUESE).json()

    assert told["en"] == [
        "There are 200 words, and not 300 to 500.",
        "A quotation does not stand on page 7: O mar.",
    ]
    assert told["pt"] == [
        "O resumo tem 200 palavras; devem ser de 300 a 500.",
        "Uma citação não está na página 7: O mar.",
    ]
    assert (result["status"], result["message"]) == ("FAIL", "Todos os capítulos estão prontos.")
    assert result["errors"] == [f"2: {each}" for each in told["pt"]]
    (body,) = psql.execute("select body from books.checkpoints where chapter_number = '2'").fetchone() or ()
    assert json.loads(bytes(body))["retoma"]["errors"] == [
        {"code": "words", "values": {"n": 200, "least": 300, "most": 500}},
        {"code": "quotation_page", "values": {"page": 7, "text": "O mar."}},
    ], "codes and values are kept, and no words"
    exported = library.client.get(f"/api/v1/books/{id}/export/json", headers={"Accept-Language": "en"}).json()
    assert exported["chapters"][1]["reasons"] == told["pt"], "a file speaks the language of its book"


def test_a_run_that_failed_says_why_in_the_language_of_who_asks(library: Library, editor: CountingEditor) -> None:
    editor.fails["2"] = RequestRejected("It is too long.", provider="test", paid=False)
    id = library.send()
    library.work()

    (_, last) = library.follow(id, **PORTUGUESE)[-1]

    assert last["message"] == "Alguns capítulos não puderam ser resumidos; os outros estão prontos."
    assert last["error"].startswith("chapters_failed: ")


def test_a_listener_is_sent_away_when_its_key_is_taken_back(
    library: Library, monkeypatch: pytest.MonkeyPatch, psql: psycopg.Connection
) -> None:
    monkeypatch.setattr("retoma.pipelines.books.http.stream.LOOKED_AFTER", 0.1)
    id, key = library.send(), library.house.key("read")
    headers = {"Accept": "text/event-stream", **key}

    with library.client.stream("GET", f"/api/progress/{id}", headers=headers, timeout=60) as response:
        lines = response.iter_lines()
        assert next(lines) is not None, "it has begun"
        library.house.ask(lambda app: app.access.revoke(key["Authorization"].split("_")[1]))
        told = list(lines)

    assert any("signed_out" in each for each in told), told[-5:]
    (state,) = psql.execute("select state from retoma.jobs").fetchone() or ()
    assert state == "queued", "only the listener has gone"


def test_a_listener_who_has_heard_all_is_not_to_come_again(library: Library) -> None:
    id = library.send()
    library.work()

    answered = library.client.get(f"/api/progress/{id}", headers={"Last-Event-ID": "6"})

    assert answered.status_code == 204
    assert library.client.get("/api/progress/none").status_code == 404


def test_what_was_told_is_not_taken_back_when_a_checkpoint_is_set_aside(
    library: Library, psql: psycopg.Connection
) -> None:
    id = library.send()
    library.work()
    psql.execute("update books.checkpoints set body = ''::bytea where chapter_number = '3'")
    psql.execute("update books.sessions set finished_at = null")
    library.house.post(f"/books/{id}/resume")
    listening: list[list[tuple[int | None, dict[str, Any]]]] = []
    listener = threading.Thread(target=lambda: listening.append(library.follow(id, last=5)))
    listener.start()

    library.work()
    listener.join(60)

    assert [(seq, said["percentage"]) for seq, said in listening[0]] == [(6, 100)]


def test_a_standstill_is_told_at_no_lower_percentage_than_was_heard(library: Library, psql: psycopg.Connection) -> None:
    id = library.send()
    library.work()
    psql.execute("update books.checkpoints set body = ''::bytea where chapter_number = '3'")
    psql.execute("update books.sessions set finished_at = null")
    library.house.post(f"/books/{id}/resume")
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "5"}

    with library.client.stream("GET", f"/api/progress/{id}", headers=headers, timeout=60) as response:
        lines = response.iter_lines()
        next(lines)  # it has begun
        library.house.post(f"/books/{id}/pause")
        ((_, said),) = _heard(lines)

    assert (said["stage"], said["percentage"]) == ("paused", 95), "three chapters were told, though one is set aside"


def test_a_list_in_doubt_waits_until_a_person_has_mended_it(library: Library, editor: CountingEditor) -> None:
    editor.doubts = (remark("numbers_missing", n=1, numbers="3"),)
    id = library.send()
    library.work()
    waiting = library.get(f"/books/{id}")
    assert (waiting["state"], waiting["reason"]) == ("paused", "review")
    assert waiting["doubts"] == ["The numbering skips: 3 is missing."]
    (listed,) = library.client.get("/api/v1/books", headers=PORTUGUESE).json()["books"]
    assert listed["doubts"] == ["A numeração salta: falta 3."]
    last = library.follow(id)[-1]
    assert (last[0], last[1]["stage"]) == (None, "paused")
    assert library.client.get(f"/api/result/{id}").json()["status"] == "PAUSED"

    wrong = library.house.post(f"/books/{id}/plan", {"edits": [{"action": "merge", "number": "1", "last": "9"}]})
    edits = [{"action": "merge", "number": "1", "last": "2"}, {"action": "rename", "number": "1", "title": "Junto"}]
    mended = library.house.post(f"/books/{id}/plan", {"edits": edits})

    assert (wrong.status_code, wrong.json()["code"]) == (422, "validation_failed")
    assert mended.json()["chapter_list"][0]["title"] == "Junto"
    assert editor.summarised == []
    assert library.house.post(f"/books/{id}/approve").status_code == 202
    library.work()
    assert library.get(f"/books/{id}")["state"] == "done"
    late = library.house.post(f"/books/{id}/plan", {"edits": edits})
    assert (late.status_code, late.json()["code"]) == (409, "conflict")
    plan = library.get(f"/books/{id}/plan")
    assert (plan["session_id"], plan["reused"], plan["redone_words"]) == (id, 2, 0)


def test_readers_are_heard_and_answered(library: Library) -> None:
    id = library.send()
    said = library.house.post(f"/books/{id}/feedback", {"kind": "question", "message": "Por quê?", "chapter": "2"})
    answered = library.house.post(f"/books/{id}/feedback/{said.json()['id']}/answer", {"answer": "Porque sim."})

    assert (said.status_code, answered.status_code) == (201, 200), said.text + answered.text
    (kept,) = library.get(f"/books/{id}/feedback")["feedback"]
    assert (kept["message"], kept["answer"], kept["chapter_number"]) == ("Por quê?", "Porque sim.", "2")


def test_a_finished_book_is_had_in_every_format_and_not_before(library: Library) -> None:
    id = library.send()
    early = library.house.get(f"/books/{id}/export/pdf")
    assert (early.status_code, early.json()["code"]) == (409, "conflict")
    library.work()
    where = library.client.get(f"/api/result/{id}").json()["exported_files"]
    assert sorted(where) == ["epub", "json", "markdown", "pdf"]

    had = {format: library.client.get(place) for format, place in where.items()}

    assert {each.status_code for each in had.values()} == {200}
    assert had["pdf"].headers["content-type"] == "application/pdf"
    assert had["epub"].headers["content-type"] == "application/epub+zip"
    assert had["pdf"].content.startswith(b"%PDF-")
    assert had["epub"].content.startswith(b"PK")
    assert 'filename="livro.md"' in had["markdown"].headers["content-disposition"]
    assert [each["number"] for each in had["json"].json()["executive"]] == ["1", "2", "3"]
    assert "Ponto 0 de 3" in had["markdown"].text
    assert library.house.get(f"/books/{id}/export/docx").status_code == 422


def test_a_file_that_is_no_book_is_refused_with_its_code(library: Library) -> None:
    refused: httpx2.Response = library.client.post(
        "/api/summarize", files={"file": ("a.png", b"\x89PNG\r\n\x1a\n" * 9)}
    )

    assert refused.status_code >= 400
    assert refused.json()["code"].startswith("file_")
    assert library.get("/books")["books"] == []


def test_real_files_come_in_by_the_route_its_users_had(open_house: Open, tmp_path: Path) -> None:
    given = providers(tmp_path / "blobs")
    house = open_house(extensions=[BOOKS], providers=given)
    book = files.as_epub(files.chapters(count=3, words=400))
    sent = house.client.post("/api/summarize", files={"file": ("livro.epub", book)}).json()

    asyncio.run(drain(Retoma(settings=house.settings, extensions=[BOOKS], providers=given)))

    result = house.client.get(sent["result_url"]).json()
    assert (result["status"], len(result["summaries"])) == ("PASS", 3)
