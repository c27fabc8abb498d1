"""Documents over HTTP: sent and left alone, followed, looked at, found, processed again, removed."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import psycopg
import pytest

from retoma.pipelines import DOCUMENTS
from retoma.pipelines.documents.library import Documents
from retoma.pipelines.documents.model import Document
from retoma.web.http import etags

from .archive import HTML, LEASE, NOBODY, files_in, names, providers, rows, send, sent, work
from .conftest import House, Open, code

TABLES = ("documents", "document_fields", "document_tables", "document_chunks")


@pytest.fixture
def given(tmp_path: Path) -> dict[type, object]:
    return providers(tmp_path / "blobs")


@pytest.fixture
def house(open_house: Open, given: dict[type, object]) -> House:
    return open_house(extensions=[DOCUMENTS], providers=given)


def test_a_file_is_taken_at_once_and_says_where_to_ask(house: House, psql: psycopg.Connection) -> None:
    answer = send(house, ("contrato.txt", LEASE), headers={"X-Correlation-Id": "from-the-request"})

    assert answer.status_code == 202
    (document,) = answer.json()["documents"]
    assert document.keys() == {"id", "filename", "status", "status_url"}
    assert (document["filename"], document["status"]) == ("contrato.txt", "PENDING")
    assert answer.headers["location"] == f"/documents/{document['id']}"
    status = house.client.get(document["status_url"]).json()
    assert status.keys() == {
        "id", "document_id", "status", "attempts", "error_log", "created_at", "started_at", "completed_at",
        "updated_at", "job_id",
    }  # fmt: skip
    assert (status["document_id"], status["status"], status["attempts"]) == (document["id"], "PENDING", 0)
    assert psql.execute("select correlation_id from retoma.jobs").fetchone() == ("from-the-request",)
    assert house.client.get("/documents/" + document["id"]).json()["uploaded_by"] == "local"


def test_one_bad_file_never_spoils_the_others(house: House, tmp_path: Path, psql: psycopg.Connection) -> None:
    answer = send(
        house, ("a.txt", LEASE), ("empty.txt", b""), ("b.pdf", b"\x7fELF" + b"\0" * 99), ("c.txt", LEASE + "!")
    )

    assert answer.status_code == 202
    became = answer.json()["documents"]
    assert names(became) == ["a.txt", "empty.txt", "b.pdf", "c.txt"]
    assert ["error" in each for each in became] == [False, True, True, False]
    assert became[1]["error"]["code"] == "file_empty"
    assert became[1].keys() == {"filename", "error"}
    assert rows(psql, "documents", "jobs") == [2, 2]
    assert len(files_in(tmp_path)) == 2
    assert answer.headers["location"] == f"/documents/status?ids={became[0]['id']},{became[3]['id']}"


def test_the_same_content_again_is_the_same_document(house: House, tmp_path: Path, psql: psycopg.Connection) -> None:
    first = sent(house)

    answer = send(house, ("other name.txt", LEASE))

    assert answer.status_code == 202
    (again,) = answer.json()["documents"]
    assert (again["id"], again["duplicate_of"], again["filename"]) == (first, first, "contrato.txt")
    assert rows(psql, "documents", "jobs") == [1, 1]
    assert len(files_in(tmp_path)) == 1


def test_files_of_the_same_name_are_two_documents(house: House, tmp_path: Path) -> None:
    one, two = sent(house, "contrato.pdf.txt", "um"), sent(house, "contrato.pdf.txt", "dois")

    assert one != two
    assert [house.client.get(f"/documents/{id}/file").text for id in (one, two)] == ["um", "dois"]
    assert len(files_in(tmp_path)) == 2


def test_a_document_goes_from_sent_to_done_and_is_found_by_what_it_says(
    house: House, given: dict[type, object]
) -> None:
    id = sent(house)
    before = house.client.get(f"/documents/{id}").json()
    work(house, given)
    whole = house.client.get(f"/documents/{id}").json()
    status = house.client.get(f"/documents/{id}/status")

    assert (before["status"], before["fields"], before["chunks"], before["steps"]) == ("PENDING", [], [], [])
    assert (whole["status"], whole["kind"], whole["mime_type"]) == ("COMPLETED", "txt", "text/plain")
    assert {field["name"]: field["value"] for field in whole["fields"]}["Locador"] == "Maria da Silva"
    assert all(0 <= field["confidence"] <= 1 for field in whole["fields"])
    assert "CLÁUSULA SEGUNDA" in " ".join(chunk["text"] for chunk in whole["chunks"])
    assert [step["name"].partition("/")[0] for step in whole["steps"]] == ["extract", "cut", "fields", "embed", "store"]
    assert (status.json()["status"], status.json()["attempts"], status.json()["error_log"]) == ("COMPLETED", 1, None)
    assert status.json()["started_at"] <= status.json()["completed_at"]
    seen = house.client.get(f"/documents/{id}/status", headers={"If-None-Match": status.headers["etag"]})
    assert (seen.status_code, seen.content) == (304, b"")
    (best, *_) = house.client.get("/documents/search", params={"q": "rescisão com aviso"}).json()["found"]
    assert (best["document_id"], best["filename"], best["page_start"]) == (id, "contrato.txt", 1)
    assert "aviso de trinta dias" in best["snippet"]


def test_a_document_that_cannot_be_read_says_why_and_is_tried_again_when_asked(
    house: House, given: dict[type, object], psql: psycopg.Connection
) -> None:
    id = sent(house, "quebrado.pdf", b"%PDF-1.7\n" + b"no pdf at all " * 50 + b"\n%%EOF\n")
    work(house, given)

    failed = house.client.get(f"/documents/{id}/status").json()
    error = house.client.get(f"/documents/{id}").json()["error"]
    asked = [house.client.post(f"/documents/{id}/reprocess") for _ in range(2)]

    assert failed["status"] == "FAILED"
    assert "quebrado.pdf" in failed["error_log"]
    assert error == failed["error_log"]
    assert [each.status_code for each in asked] == [202, 202]
    assert [each.json()["status"] for each in asked] == ["PENDING", "PENDING"]
    assert asked[0].headers["location"] == f"/documents/{id}/status"
    assert rows(psql, "jobs") == [1]


def test_processing_again_replaces_what_was_read_and_doubles_nothing(
    house: House, given: dict[type, object], psql: psycopg.Connection
) -> None:
    id = sent(house)
    work(house, given)
    before = rows(psql, *TABLES)
    house.client.post(f"/documents/{id}/reprocess")
    work(house, given)

    assert house.client.get(f"/documents/{id}/status").json()["status"] == "COMPLETED"
    assert rows(psql, *TABLES) == before
    assert before[1] > 0 < before[3]


def test_a_removed_document_leaves_nothing_behind(
    house: House, given: dict[type, object], tmp_path: Path, psql: psycopg.Connection
) -> None:
    id = sent(house)
    work(house, given)

    assert house.client.delete(f"/documents/{id}").status_code == 204
    assert rows(psql, *TABLES) == [0, 0, 0, 0]
    assert files_in(tmp_path) == []
    for path in ("", "/status", "/file"):
        assert code(house.client.get(f"/documents/{id}{path}")) == (404, "not_found")
    assert code(house.client.delete(f"/documents/{id}")) == (404, "not_found")
    assert code(house.client.post(f"/documents/{id}/reprocess")) == (404, "not_found")


def test_a_document_is_removed_only_as_it_was_looked_at(
    house: House, given: dict[type, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/documents/{sent(house)}"
    early = house.client.get(path).headers["etag"]
    work(house, given)
    tag = house.client.get(path).headers["etag"]

    late = house.client.delete(path, headers={"If-Match": early})
    with monkeypatch.context() as patch:  # it changes between our look and its removal
        looked = Documents.get

        async def before(library: Documents, id: UUID) -> Document:
            return replace(await looked(library, id), attempts=0)

        patch.setattr(etags, "refuse_other", lambda *_: None)
        patch.setattr(Documents, "get", before)
        between = house.client.delete(path, headers={"If-Match": tag})
    there = house.client.get(path, headers={"If-None-Match": tag})
    gone = house.client.delete(path, headers={"If-Match": tag})

    assert [code(each) for each in (late, between)] == [(412, "precondition_failed")] * 2
    assert (there.status_code, gone.status_code) == (304, 204)
    assert code(house.client.delete(path, headers={"If-Match": "*"})) == (404, "not_found")


def test_the_list_is_searched_filtered_and_turned_page_by_page(house: House) -> None:
    for number in range(5):
        sent(house, f"ata {number}.txt", f"ata {number}")
    sent(house, "nota.txt", "nota")

    first = house.client.get("/documents", params={"limit": 2, "search": "ata"})
    second = house.client.get(first.headers["link"].partition(">")[0][1:])
    last = house.client.get("/documents", params={"limit": 2, "search": "ATA", "cursor": second.json()["next"]})

    assert names(first.json()["documents"]) == ["ata 4.txt", "ata 3.txt"]
    assert names(second.json()["documents"]) == ["ata 2.txt", "ata 1.txt"]
    assert (names(last.json()["documents"]), last.json()["next"]) == (["ata 0.txt"], None)
    assert names(house.client.get("/documents?status=COMPLETED").json()["documents"]) == []
    assert len(house.client.get("/documents?status=PENDING").json()["documents"]) == 6
    assert "error" in first.json()["documents"][0]


def test_the_status_of_many_is_one_question_with_an_etag(house: House) -> None:
    ids = [sent(house, f"{number}.txt", f"texto {number}") for number in range(3)]

    asked = house.client.get("/documents/status", params={"ids": ",".join([ids[2], NOBODY, ids[0], ids[2]])})
    same = house.client.get("/documents/status", params={"ids": [ids[2], ids[0]]})
    seen = house.client.get(str(asked.url), headers={"If-None-Match": asked.headers["etag"]})

    assert [each["document_id"] for each in asked.json()["documents"]] == [ids[2], ids[0]]
    assert asked.json() == same.json()
    assert seen.status_code == 304


@pytest.mark.parametrize(
    "path",
    [
        "/documents?status=DONE", "/documents?limit=0", "/documents?limit=201", "/documents?page=2",
        "/documents?cursor=x", "/documents/status", "/documents/status?ids=", "/documents/status?ids=1",
        "/documents/search", "/documents/search?q=", "/documents/search?q=a&limit=51",
        f"/documents/{NOBODY}/file?inline=perhaps",
    ],
)  # fmt: skip
def test_a_question_that_makes_no_sense_is_refused(house: House, path: str) -> None:
    refused = house.client.get(path)

    assert code(refused)[0] == 422, refused.text


# — the file —


@pytest.mark.parametrize(
    "name",
    ['a "quoted"; name.txt', "ação — 100%.txt", "日本語.txt", "a;b=c\\d.txt", "  .txt", "…\u202etxt.exe.txt"],
)
def test_a_name_does_no_harm_in_the_header_and_comes_back_as_it_was_kept(house: House, name: str) -> None:
    id = sent(house, name, f"conteúdo de {name}")
    kept = house.client.get(f"/documents/{id}").json()["filename"]

    answer = house.client.get(f"/documents/{id}/file")

    shown = answer.headers["content-disposition"]
    plain, _, coded = shown.partition("; filename*=UTF-8''")
    assert unquote(coded) == kept
    assert plain.startswith('attachment; filename="')
    assert plain.endswith('"')
    assert plain.count('"') == 2
    assert shown.isascii()
    assert "\u202e" not in kept
    assert answer.text == f"conteúdo de {name}"
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_a_file_is_saved_and_only_what_cannot_run_is_shown(house: House) -> None:
    import bad_files  # noqa: PLC0415 - on the path since archive was imported

    page = sent(house, "pagina.html", "<html><body><script>alert(1)</script><p>Olá</p></body></html>")
    pdf, picture = sent(house, "a.pdf", bad_files.whole_pdf()), sent(house, "b.png", bad_files.white_png())

    for id, kind, inline in ((page, "text/html", False), (pdf, "application/pdf", True), (picture, "image/png", True)):
        saved = house.client.get(f"/documents/{id}/file")
        shown = house.client.get(f"/documents/{id}/file?inline=true")
        for answer in (saved, shown):
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["content-type"].startswith(kind)
            assert answer.headers["content-security-policy"].startswith("default-src 'none'; ")
        assert saved.headers["content-disposition"].startswith("attachment")
        assert saved.headers["content-security-policy"].endswith("sandbox")
        assert shown.headers["content-disposition"].startswith("inline" if inline else "attachment")
        seen = house.client.get(f"/documents/{id}/file", headers={"If-None-Match": saved.headers["etag"]})
        assert (seen.status_code, seen.content) == (304, b"")


# — who may —


def test_each_door_asks_for_its_own_scope(house: House) -> None:
    id = sent(house)
    doors: list[tuple[str, str, str]] = [
        ("read", "GET", "/documents"),
        ("read", "GET", f"/documents/{id}"),
        ("read", "GET", f"/documents/{id}/status"),
        ("read", "GET", f"/documents/status?ids={id}"),
        ("content:read", "GET", "/documents/search?q=a"),
        ("content:read", "GET", f"/documents/{id}/file"),
        ("submit", "POST", "/documents"),
        ("operate", "POST", f"/documents/{id}/reprocess"),
        ("operate", "DELETE", f"/documents/{id}"),
    ]
    for scope in ("read", "content:read", "submit", "operate"):
        key = house.key(scope)
        for needed, method, path in doors:
            if method == "DELETE" and scope == needed:
                continue
            body: dict[str, Any] = (
                {"files": [("f", ("a.txt", b"a"))]} if path == "/documents" and method == "POST" else {}
            )
            answer = house.client.request(method, path, headers=key, **body)
            assert (answer.status_code < 300) == (scope == needed), (scope, method, path, answer.text)
    other = house.key("read", "submit", pipelines=("something-else",))
    assert code(house.client.get("/documents", headers=other)) == (403, "pipelines_limited")
    assert house.client.get("/documents", headers=house.key("read", pipelines=("documents",))).status_code == 200


def test_what_documents_say_is_seen_with_its_scope_only(house: House, given: dict[type, object]) -> None:
    id, bad = sent(house), sent(house, "segredo.pdf", b"%PDF-1.7\nnothing\n%%EOF\n")
    work(house, given)
    looks, reads = house.key("read"), house.key("read", "content:read")

    for path in (f"/documents/{id}", f"/documents/{bad}", f"/documents/{bad}/status", f"/documents/status?ids={bad}"):
        without, whole = house.client.get(path, headers=looks), house.client.get(path, headers=reads)
        assert len(whole.content) > len(without.content)
        assert not any(word in without.text for word in ("Maria", "CLÁUSULA", '"error', "damaged"))
    assert "Maria" not in house.client.get(f"/documents/{id}", headers=looks | HTML).text
    assert "Maria" in house.client.get(f"/documents/{id}", headers=reads | HTML).text


def test_documents_are_there_only_where_the_pipeline_is(still_house: House) -> None:
    assert code(still_house.client.get("/documents")) == (404, "not_found")
    assert code(still_house.client.post("/documents", files=[("f", ("a.txt", b"a"))])) == (404, "not_found")


# — as pages —


def test_one_address_is_a_page_for_people_and_data_for_programs(house: House) -> None:
    sent(house)

    page, data = house.client.get("/documents", headers=HTML), house.client.get("/documents")
    region = house.client.get("/documents", headers=HTML | {"HX-Request": "true", "HX-Target": "section#documents"})
    seen = house.client.get("/documents", headers=HTML | {"If-None-Match": page.headers["etag"]})

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert data.headers["content-type"] == "application/json"
    assert "Accept" in page.headers["vary"]
    assert "Accept" in data.headers["vary"]
    assert page.text.lstrip().startswith("<!doctype html>")
    assert region.text.strip().startswith('<section id="documents"')
    assert region.text.strip().endswith("</section>")
    assert region.text.strip() in page.text
    assert seen.status_code == 304
    assert house.client.get("/", headers=HTML).headers["location"] == "/console/"


def test_a_page_shows_how_a_text_begins_and_opens_no_file_that_defeated_our_reader(
    house: House, given: dict[type, object]
) -> None:
    text, broken = sent(house), sent(house, "quebrado.pdf", b"%PDF-1.7\n" + b"no pdf at all " * 50 + b"\n%%EOF\n")
    waiting = house.client.get(f"/documents/{broken}", headers=HTML).text
    work(house, given)
    shown = house.client.get(f"/documents/{text}", headers=HTML).text
    closed = house.client.get(f"/documents/{broken}", headers=HTML).text

    preview = shown.partition('class="preview words"')[2].partition("</div>")[0]
    assert "Maria da Silva" in preview
    assert "aviso de trinta dias" in preview, "not the first piece alone"
    assert "<iframe" in waiting
    assert "<iframe" not in closed
    assert "não é aberto aqui" in closed
    assert f"/documents/{broken}/file" in closed, "who wants it may still have it"


def test_a_row_and_what_unfolds_under_it_are_asked_for_alone(house: House, given: dict[type, object]) -> None:
    id = sent(house)
    work(house, given)
    alone = HTML | {"HX-Request": "true"}

    row = house.client.get(f"/documents/{id}", headers=alone | {"HX-Target": f"tr#row--{id}"}).text.strip()
    detail = house.client.get(f"/documents/{id}", headers=alone | {"HX-Target": f"div#detail--{id}"}).text.strip()

    assert row.startswith(f'<tr id="row--{id}"')
    assert row.endswith("</tr>")
    assert "Concluído" in row
    assert detail.startswith(f'<div id="detail--{id}"')
    assert "Maria da Silva" in detail
    assert "60% de certeza" in detail
    again = house.client.post(f"/documents/{id}/reprocess", headers=alone | {"HX-Target": f"tr#row--{id}"})
    assert "Enviado" in again.text


def test_a_form_without_a_script_is_answered_with_a_page(house: House) -> None:
    shown = send(house, ("contrato.txt", LEASE), ("vazio.txt", b""), headers=HTML)
    refused = send(house, ("vazio.txt", b""), headers=HTML | {"Accept-Language": "en"})
    id = house.client.get("/documents").json()["documents"][0]["id"]
    again = house.client.post(f"/documents/{id}/reprocess", headers=HTML)

    assert shown.status_code == 202
    assert "Recebido. O processamento começa sozinho." in shown.text
    assert "Não há nada dentro dele. Confira o original e envie de novo." in shown.text
    assert (refused.status_code, "<h1>The file is empty</h1>" in refused.text) == (400, True)
    assert (again.status_code, again.headers["location"]) == (303, f"/documents/{id}")


def test_a_name_or_a_text_cannot_become_part_of_the_page(house: House, given: dict[type, object]) -> None:
    name = "<img src=x onerror=alert(1)>.txt"
    id = sent(house, name, "Nome: <script>alert(2)</script>\n\n</script><b>texto</b> com palavras")
    work(house, given)

    for path in ("/documents", f"/documents/{id}", "/documents/search?q=palavras"):
        text = house.client.get(path, headers=HTML).text
        assert "&lt;img src=x" in text
        assert "<img src=x" not in text
        assert "<script>alert" not in text
        assert "<b>texto" not in text


def test_who_has_no_key_is_led_to_the_form_and_back(house: House) -> None:
    house.key("read")

    led = house.client.get("/documents?status=FAILED&lang=en", headers=HTML)
    inside = house.client.get("/documents", headers=HTML | {"HX-Request": "true", "HX-Target": "section#documents"})
    changed = send(house, ("a.txt", b"a"), headers=HTML)

    assert (led.status_code, led.headers["location"]) == (303, "/login?next=%2Fdocuments%3Fstatus%3DFAILED")
    assert (inside.status_code, inside.headers["hx-redirect"]) == (401, "/login")
    assert (changed.status_code, changed.headers["location"]) == (303, "/login")
    assert code(house.client.get("/documents")) == (401, "auth_missing")


def test_a_problem_in_a_page_is_told_in_the_page(house: House) -> None:
    alone = HTML | {"HX-Request": "true", "HX-Target": f"tr#row--{NOBODY}"}

    notice = house.client.post(f"/documents/{NOBODY}/reprocess", headers=alone)
    page = house.client.get(f"/documents/{NOBODY}?lang=en", headers=HTML)

    assert (notice.status_code, notice.headers["hx-retarget"]) == (404, "#notices")
    assert notice.text.startswith('<div class="notice tone-bad" role="alert">')
    assert "Não existe" in notice.text
    assert (page.status_code, "<h1>There is no such thing</h1>" in page.text) == (404, True)


# — the description —


def test_every_route_of_documents_is_described_and_in_the_reference(house: House) -> None:
    schema = house.client.get("/openapi.json").json()
    page = (Path(__file__).parents[2] / "docs/reference/http.md").read_text(encoding="utf-8")
    found = {
        f"{method.upper()} {path}": operation
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
        if path.startswith("/documents")
    }

    assert len(found) == 10
    for route, operation in found.items():
        ((scope,),) = (need["key"] for need in operation["security"])
        assert sum(line.startswith(f"| `{route}` | `{scope}` |") for line in page.splitlines()) == 1, route
        assert 5 < len(operation["summary"]) < 121
        assert operation["operationId"][0].islower()
        assert {"401", "403", "500", "503"} <= operation["responses"].keys()
    upload = found["POST /documents"]
    assert upload["requestBody"]["content"].keys() == {"multipart/form-data"}
    assert upload["responses"]["507"]["description"] == "store_full"
    assert upload["responses"]["202"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Sent"}
    for shape in schema["components"]["schemas"].values():
        assert shape.get("description") or shape["type"] != "object"
