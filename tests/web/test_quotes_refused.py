"""Bad input of every kind to the routes of quotes: a clear problem with a code that never changes, and nothing lost."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openpyxl
import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))

from market import Bill, a_market
from pictures import drawn, png

from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.lists import MOST_BYTES
from retoma.pipelines.quotes.ports import Market
from retoma.providers import BlobStore
from retoma.providers.folder import FolderBlobs
from retoma.web.words.sentences import in_portuguese

from .conftest import House, Open, code

BOMB = png(50_000, 50_000)
QUOTE, TEXT, FILE, BATCH = "/api/quotes", "/api/batch-quotes/text", "/api/batch-quotes/file", "/api/batch-quotes"
MANY = 10_001
TABLES = (
    "quotes.quote_requests", "quotes.batch_quote_jobs", "quotes.batch_items", "quotes.quote_sources", "retoma.jobs",
    "retoma.batches", "retoma.loose_blobs",
)  # fmt: skip

Asked = tuple[str, dict[str, Any]]


@pytest.fixture
def house(open_house: Open, tmp_path: Path) -> House:
    market, blobs = a_market(Bill(tmp_path / "bill.log")), FolderBlobs(tmp_path / "blobs")
    return open_house(extensions=[QUOTES], providers={Market: market, BlobStore: blobs})


def workbook() -> bytes:
    book, kept = openpyxl.Workbook(), io.BytesIO()
    book.active.append(["descricao"])
    book.active.append(["Mesa"])
    book.save(kept)
    return kept.getvalue()


def with_macros() -> bytes:
    kept = io.BytesIO(workbook())
    with zipfile.ZipFile(kept, "a") as package:
        package.writestr("xl/vbaProject.bin", b"Sub Auto_Open()")
    return kept.getvalue()


def said(path: str, **fields: Any) -> Asked:
    return path, {"json": fields}


def seen(content: bytes, path: str = QUOTE, **fields: str) -> Asked:
    return path, {"files": {"images": ("mesa.png", content)}, "data": fields}


def listed(content: bytes, name: str = "lista.csv", **fields: str) -> Asked:
    return FILE, {"files": {"file": (name, content)}, "data": fields}


BAD: dict[str, tuple[Callable[[], Asked], int, str, str | None]] = {
    # What is asked, the status and the code that it is refused with, and the code of the first fault.
    "an empty description": (lambda: said(QUOTE, inputText=""), 422, "validation_failed", "string_pattern_mismatch"),
    "a blank description": (lambda: said(QUOTE, inputText=" \n "), 422, "validation_failed", "string_pattern_mismatch"),
    "a form without a description": (lambda: (QUOTE, {"data": {"codigo": "1"}}), 422, "validation_failed", "missing"),
    "an empty field of a form": (lambda: (QUOTE, {"data": {"inputText": " "}}), 422, "validation_failed", "missing"),
    "nothing at all": (lambda: (QUOTE, {}), 422, "validation_failed", "missing"),
    "a description that is too long": (
        lambda: said(QUOTE, inputText="x" * 4001), 422, "validation_failed", "string_too_long"),
    "a description that is a number": (lambda: said(QUOTE, inputText=1), 422, "validation_failed", "string_type"),
    "a field that nobody knows": (
        lambda: said(QUOTE, inputText="Mesa", preco=1), 422, "validation_failed", "extra_forbidden"),
    "a list where an object is needed": (
        lambda: (QUOTE, {"json": ["Mesa"]}), 422, "validation_failed", "model_attributes_type"),
    "signs that are no text": (lambda: said(QUOTE, inputText="a\0b"), 422, "invalid_text", None),
    "signs that are no text in a form": (
        lambda: (QUOTE, {"files": {"inputText": (None, "a\0b")}}), 422, "invalid_text", None),
    "a body of another kind": (
        lambda: (QUOTE, {"content": b"Mesa", "headers": {"Content-Type": "text/plain"}}), 415,
        "unsupported_media_type", None),
    "a form that is cut off": (
        lambda: (QUOTE, {"content": b"--x\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=x"}}), 400,
        "multipart_invalid", None),
    "a list where a photograph is needed": (
        lambda: (QUOTE, {"files": {"inputText": (None, "Mesa"), "f": ("a.csv", b"x")}}), 422, "validation_failed",
        "image_unsupported"),
    "six photographs of one item": (
        lambda: (QUOTE, {"files": [("images", (f"{each}.png", png())) for each in range(6)]}), 413,
        "too_many_files", None),
    "an image bomb": (lambda: seen(BOMB), 422, "validation_failed", "image_too_many_pixels"),
    "an image bomb with a description": (
        lambda: seen(BOMB, inputText="Mesa"), 422, "validation_failed", "image_too_many_pixels"),
    "an image that is too large": (
        lambda: seen(png() + b"x" * 5_000_000), 422, "validation_failed", "image_too_large"),
    "an image that is none": (lambda: seen(b"GIF89a"), 422, "validation_failed", "image_unsupported"),
    "an image that is cut off": (lambda: seen(drawn("PNG")[:-20]), 422, "validation_failed", "image_damaged"),
    "an empty image": (lambda: seen(b""), 422, "validation_failed", "image_empty"),
    "a photograph for an unknown project": (lambda: seen(png(), project_id="99"), 404, "not_found", None),
    "images that are all bombs": (
        lambda: seen(BOMB, f"{BATCH}/images"), 422, "validation_failed", "image_too_many_pixels"),
    "images of an unknown project": (lambda: seen(png(), f"{BATCH}/images", project_id="99"), 404, "not_found", None),
    "images without one": (lambda: (f"{BATCH}/images", {"files": {"name": (None, "x")}}), 400, "file_missing", None),
    "images that are JSON": (lambda: said(f"{BATCH}/images", name="x"), 415, "multipart_expected", None),
    "501 images": (
        lambda: (f"{BATCH}/images", {"files": [("images", ("a.png", png())) for _ in range(501)]}), 422,
        "validation_failed", "too_many_images"),
    "an unknown project": (lambda: said(QUOTE, inputText="Mesa", project_id=99), 404, "not_found", None),
    "a project that is a word": (
        lambda: (QUOTE, {"data": {"inputText": "Mesa", "project_id": "x"}}), 422, "validation_failed", "int_parsing"),
    "a text without items": (lambda: said(TEXT, inputText=" ;; \n;"), 422, "validation_failed",
                             "string_pattern_mismatch"),
    "a text of items that are too long": (
        lambda: said(TEXT, inputText="x" * 4001), 422, "validation_failed", "description_too_long"),
    "10,001 items in a text": (lambda: said(TEXT, inputText="Mesa;" * MANY), 422, "validation_failed", "list_too_long"),
    "10,001 items in a file": (
        lambda: listed(b"descricao\n" + b"Mesa\n" * MANY), 422, "validation_failed", "list_too_long"),
    "a list of an unknown project": (lambda: listed(b"descricao\nMesa\n", project_id="99"), 404, "not_found", None),
    "a form without its file": (lambda: (FILE, {"files": {"name": (None, "x")}}), 400, "file_missing", None),
    "two files": (
        lambda: (FILE, {"files": [("file", ("a.csv", b"descricao\nMesa")), ("file", ("b.csv", b"descricao\nX"))]}),
        413, "too_many_files", None),
    "an empty file": (lambda: listed(b" \n"), 422, "validation_failed", "list_empty"),
    "a file without a column of descriptions": (
        lambda: listed(b"a;b\n1;2\n"), 422, "validation_failed", "list_without_descriptions"),
    "a file with nothing but bad rows": (
        lambda: listed(b"codigo;descricao\n1;\n2;\n"), 422, "validation_failed", "description_missing"),
    "a broken XLSX": (
        lambda: listed(workbook()[:2000], "lista.xlsx"), 422, "validation_failed", "list_damaged"),
    "an XLSX that is none": (lambda: listed(b"Mesa", "lista.xlsx"), 422, "validation_failed", "list_damaged"),
    "a file with macros": (lambda: listed(with_macros(), "lista.xlsm"), 422, "validation_failed", "list_has_macros"),
    "macros under an honest name": (
        lambda: listed(with_macros(), "lista.xlsx"), 422, "validation_failed", "list_has_macros"),
    "a workbook of an old format": (
        lambda: listed(b"\xd0\xcf\x11\xe0" + b"\0" * 600, "lista.xls"), 422, "validation_failed", "list_old_format"),
    "a file that is no text": (lambda: listed(b"\0\1\2" * 99), 422, "validation_failed", "list_not_text"),
    "a file that is too large": (
        lambda: listed(b"descricao\n" + b"x" * MOST_BYTES), 422, "validation_failed", "list_too_large"),
}  # fmt: skip


def kept(psql: psycopg.Connection) -> dict[str, list[Any]]:
    return {name: psql.execute(f"select t::text from {name} as t order by 1".encode()).fetchall() for name in TABLES}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_its_code_and_nothing_is_begun_or_lost(
    house: House, psql: psycopg.Connection, tmp_path: Path, name: str
) -> None:
    house.client.post(QUOTE, json={"inputText": "Cadeira"}).raise_for_status()
    before = kept(psql)
    ask, status, word, fault = BAD[name]
    path, options = ask()
    refused = house.client.post(path, **options)
    portuguese = house.client.post(
        path, **{**options, "headers": {**options.get("headers", {}), "Accept-Language": "pt-BR"}}
    )

    assert code(refused) == (status, word), refused.text
    faults = refused.json()["errors"]
    assert (faults[0]["code"] if faults else None) == fault
    assert refused.json()["detail"]
    assert kept(psql) == before
    assert [each for each in (tmp_path / "blobs").rglob("*") if each.is_file()] == [], "no image is left behind"
    assert code(portuguese) == (status, word)
    assert portuguese.json()["detail"] != refused.json()["detail"], "it is said in the language of the caller"
    for english, told in zip(faults, portuguese.json()["errors"], strict=True):
        assert told["detail"] == in_portuguese(english["detail"]), "and exactly"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{QUOTE}/99"),
        ("POST", f"{QUOTE}/99/cancel"),
        ("POST", f"{QUOTE}/99/requote"),
        ("GET", f"{QUOTE}/99/integration-logs"),
        ("GET", f"{QUOTE}/99/pdf"),
        ("GET", f"{QUOTE}/99/screenshots"),
        ("GET", f"{QUOTE}/99/screenshots/1"),
        ("GET", f"{BATCH}/99"),
        ("GET", f"{BATCH}/99/quotes"),
        ("GET", f"{BATCH}/99/costs"),
        ("GET", f"{BATCH}/99/download/pdf"),
        ("GET", f"{BATCH}/99/download/csv"),
        ("POST", f"{BATCH}/99/resume"),
        ("POST", f"{BATCH}/99/cancel"),
    ],
)
def test_an_id_that_is_not_there_is_404_and_one_that_is_none_is_refused(house: House, method: str, path: str) -> None:
    told = house.client.request(method, path, headers={"Accept-Language": "pt"})

    assert code(told) == (404, "not_found")
    assert told.json()["detail"].startswith("Não existe"), told.json()["detail"]
    assert house.client.request(method, path.replace("99", "x", 1)).status_code in (404, 422)
    assert code(house.client.request(method, path.replace("99", "0", 1))) == (422, "validation_failed")


def test_a_format_that_is_not_offered_is_refused(house: House) -> None:
    house.client.post(TEXT, json={"inputText": "Mesa"})

    assert code(house.client.get(f"{BATCH}/1/download/docx")) == (422, "validation_failed")


# — twice —


@pytest.mark.parametrize(
    "ask",
    [
        lambda: said(QUOTE, inputText="Mesa"),
        lambda: (QUOTE, {"data": {"inputText": "Mesa"}}),
        lambda: (QUOTE, {"files": {"inputText": (None, "Mesa")}}),
        lambda: said(TEXT, inputText="Mesa; Cadeira"),
        lambda: listed(b"descricao\nMesa\nCadeira\n"),
        lambda: seen(png(), inputText="Mesa"),
        lambda: (f"{BATCH}/images", {"files": [("images", (name, png())) for name in ("a.png", "b.png")]}),
    ],
    ids=["json", "form", "form with files", "text", "file", "photograph", "photographs"],
)
def test_what_is_sent_twice_with_one_key_is_done_once(
    house: House, psql: psycopg.Connection, tmp_path: Path, ask: Callable[[], Asked]
) -> None:
    path, options = ask()
    headers = {"Idempotency-Key": "click-1"}
    with ThreadPoolExecutor(2) as both:
        answers = list(both.map(lambda _: house.client.post(path, **options, headers=headers), range(2)))
    answers = [each for each in answers if each.status_code != 409]  # the other is still being answered
    before = kept(psql)
    again = house.client.post(path, **options, headers=headers)

    assert {each.status_code for each in answers} == {202}
    assert again.headers["idempotency-replayed"] == "true"
    assert (again.json(), again.headers["location"]) == (answers[0].json(), answers[0].headers["location"])
    assert kept(psql) == before
    images = psql.execute("select input_blob from quotes.quote_requests where input_blob is not null").fetchall()
    assert len(images) == len([each for each in (tmp_path / "blobs").rglob("*") if each.is_file()])
    assert len(before["retoma.jobs"]) == len(before["quotes.quote_requests"]) == (1 if path == QUOTE else 2)
    rows = house.ask(lambda app: app.audit.page())
    assert [each.outcome for each in rows].count("done") == 1, "what is answered again is no second change"


@pytest.mark.parametrize("path", [QUOTE, TEXT])
def test_another_item_under_the_same_key_is_refused(house: House, psql: psycopg.Connection, path: str) -> None:
    headers = {"Idempotency-Key": "click-1"}
    house.client.post(path, json={"inputText": "Mesa"}, headers=headers).raise_for_status()

    refused = house.client.post(path, json={"inputText": "Cadeira"}, headers=headers)

    assert code(refused) == (422, "idempotency_key_reused")
    assert len(kept(psql)["quotes.quote_requests"]) == 1
    assert code(house.client.post(path, json={"inputText": "x"}, headers={"Idempotency-Key": "a b"})) == (
        422, "validation_failed",
    )  # fmt: skip


def test_the_same_file_sent_again_while_it_is_at_work_is_the_same_batch(house: House, psql: psycopg.Connection) -> None:
    path, options = listed(b"descricao\nMesa\nCadeira\n")
    first = house.client.post(path, **options)
    before = kept(psql)
    again = house.client.post(path, **options)

    assert (first.json()["new"], again.json()["new"]) == (True, False)
    assert again.headers["location"] == first.headers["location"]
    assert kept(psql) == before
    assert [each.outcome for each in house.ask(lambda app: app.audit.page())] == ["done"]


def test_a_key_that_lets_too_many_wait_is_told_so_and_nothing_is_begun(
    open_house: Open, tmp_path: Path, psql: psycopg.Connection
) -> None:
    market = a_market(Bill(tmp_path / "bill.log"))
    house = open_house(extensions=[QUOTES], providers={Market: market}, key_jobs_waiting=2)
    first = house.client.post(TEXT, json={"inputText": "Mesa; Cadeira"})

    for path, options in (said(QUOTE, inputText="Mesa"), said(TEXT, inputText="Mesa"), listed(b"descricao\nX\n")):
        assert code(house.client.post(path, **options)) == (429, "quota_exceeded"), path
    assert first.status_code == 202
    assert len(kept(psql)["quotes.quote_requests"]) == 2
