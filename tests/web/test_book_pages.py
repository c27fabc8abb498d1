"""The pages of books as the server makes them: who sees what, regions alone, and why a chapter did not pass."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import psycopg
import pytest

from retoma import Retoma
from retoma.pipelines import BOOKS
from retoma.pipelines.books import chapters, sessions
from retoma.pipelines.books.contract import NO_EXAMPLES, Checkpoint
from retoma.pipelines.books.model import Session, Standing, StoredChapter
from retoma.pipelines.books.pages import view
from retoma.pipelines.books.pages.chapters import pages_of
from retoma.pipelines.books.ports import Editor
from retoma.pipelines.books.reading import reasons, summary_of
from retoma.pipelines.books.remarks import all_said
from retoma.pipelines.books.verdicts import Reason
from retoma.providers import BlobStore, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.testing import drain
from retoma.web.words import phrases

from .conftest import House, Open, code

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "books"))

from sample_books import CountingEditor, TextExtractor, book_text, original, ours

HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Accept-Language": "pt-BR"}
OTHER_SITE = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}


@pytest.fixture
def given(tmp_path: Path) -> dict[type, object]:
    return {BlobStore: FolderBlobs(tmp_path / "blobs"), Extractor: TextExtractor(), Editor: CountingEditor()}


@pytest.fixture
def house(open_house: Open, given: dict[type, object]) -> House:
    return open_house(extensions=[BOOKS], providers=given)


def sent(house: House, text: str | None = None, **options: Any) -> str:
    """The address of a book that was pasted."""
    said = {"title": "Livro", "text": book_text() if text is None else text}
    answer = house.client.post("/books", data=said, headers=HTML | options)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"]).partition("?")[0]


def work(house: House, given: dict[type, Any]) -> None:
    asyncio.run(drain(Retoma(settings=house.settings, extensions=[BOOKS], providers=given)))


def test_the_same_text_finds_its_session_and_a_file_is_taken_too(house: House) -> None:
    place = sent(house)
    again = house.client.post("/books", data={"text": book_text()}, headers=HTML)
    file = house.client.post("/books", files={"file": ("livro.md", book_text(4).encode())}, headers=HTML)

    assert again.headers["location"] == f"{place}?told=found"
    assert file.status_code == 303
    assert str(file.headers["location"]).endswith("?told=begun")
    assert "livro" in house.client.get("/books", headers=HTML).text


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"data": {"text": " "}}, 400),
        ({"files": {"file": ("livro.txt", b"")}}, 400),
        ({"files": {"file": ("foto.png", b"\x89PNG\r\n\x1a\n" + b"x" * 100)}}, 415),
        ({"files": {"file": ("livro.pdf", b"no pdf at all")}}, 415),
    ],
)
def test_what_is_refused_is_told_above_the_form(house: House, options: dict[str, Any], status: int) -> None:
    answer = house.client.post("/books", headers=HTML, **options)

    assert answer.status_code == status, answer.text
    assert 'role="alert"' in answer.text
    assert 'id="text"' in answer.text
    assert "Ainda não há livros" in answer.text


def test_each_region_of_a_session_comes_alone(house: House, given: dict[type, object]) -> None:
    place = sent(house)
    work(house, given)

    for name in ("standing", "reading", "chapters", "made", "voices"):
        shown = house.client.get(place, headers=HTML | {"HX-Request": "true", "HX-Target": f"section#{name}"})
        assert shown.text.lstrip().startswith(f'<section id="{name}"'), name


def test_a_key_sees_and_does_what_it_allows(house: House, given: dict[type, object]) -> None:
    place = sent(house)
    work(house, given)
    reader = house.key("read") | HTML
    other = house.key("read", "content:read", pipelines=("documents",)) | HTML

    shown = house.client.get(place, headers=reader).text
    assert "Capítulo 1" in shown  # its number, and not what the book calls it
    assert "Ponto 0 de 1" not in shown
    assert "content:read" in shown
    assert "Enviar comentário" not in shown
    refused = [
        house.client.get(f"{place}/chapters/1", headers=reader),
        house.client.get(f"{place}/text/1", headers=reader),
        house.client.get(f"{place}/source", headers=reader),
        house.client.get(f"{place}/review", headers=reader),
        *(house.client.post(f"{place}/{each}", headers=reader) for each in ("resume", "pause", "approve", "review")),
        house.client.post(f"{place}/feedback", data={"kind": "praise", "message": "x"}, headers=reader),
        house.client.post("/books", data={"text": "x"}, headers=reader),
        house.client.get("/books", headers=other),
        house.client.get(place, headers=other),
    ]
    assert {each.status_code for each in refused} == {403}
    assert house.client.get("/books", headers=HTML).status_code == 303, "whoever has no key is asked for one"


def test_no_page_of_another_site_can_change_anything(house: House) -> None:
    place = sent(house)

    for path in ("/books", *(f"{place}/{each}" for each in ("resume", "pause", "approve", "review", "feedback"))):
        answer = house.client.post(path, data={"text": "x"}, headers={"Accept": "application/json"} | OTHER_SITE)
        assert code(answer) == (403, "cross_site_blocked"), path


def test_who_looks_at_a_chapter_is_in_the_audit(house: House, given: dict[type, object]) -> None:
    place = sent(house)
    work(house, given)

    assert house.client.get(f"{place}/chapters/2", headers=HTML).status_code == 200

    newest = house.ask(lambda app: app.audit.page(limit=1))[0]
    assert (newest.action, newest.outcome, newest.object_kind) == ("book.show", "looked", "book")
    assert newest.object_id == place.rpartition("/")[2]


def test_the_row_of_a_book_that_was_sent_names_its_session(house: House) -> None:
    place = sent(house)

    newest = house.ask(lambda app: app.audit.page(limit=1))[0]
    assert (newest.action, newest.outcome, newest.object_id) == ("book.send", "done", place.rpartition("/")[2])


@pytest.mark.parametrize("path", ["/books/nobody", "/books/nobody/chapters/1", "/books/nobody/review"])
def test_what_is_not_there_is_not_found(house: House, path: str) -> None:
    assert house.client.get(path, headers=HTML).status_code == 404


def test_a_chapter_that_is_not_there_and_feedback_that_says_nothing_are_refused(
    house: House, given: dict[type, object]
) -> None:
    place = sent(house)
    work(house, given)

    assert house.client.get(f"{place}/chapters/99", headers=HTML).status_code == 404
    for said in ({"kind": "praise", "message": " "}, {"kind": "x", "message": "x"}, {"kind": "praise", "chapter": "9"}):
        assert house.client.post(f"{place}/feedback", data=said, headers=HTML).status_code == 422, said


def test_a_list_that_waits_for_nobody_leads_back_to_its_book(house: House, given: dict[type, object]) -> None:
    place = sent(house)
    work(house, given)

    assert house.client.get(f"{place}/review", headers=HTML).headers["location"] == place
    assert house.client.post(f"{place}/review", data={"do": "merge", "number": "2"}, headers=HTML).status_code == 409


def test_what_a_book_says_cannot_become_a_mark_of_the_page(house: House, given: dict[type, object]) -> None:
    place = sent(house, "## Capítulo 1\n\n<script>alert(1)</script> " + "palavra " * 400)
    work(house, given)

    for path in (place, f"{place}/chapters/1", f"{place}/text/1"):
        assert "<script>alert" not in house.client.get(path, headers=HTML).text


# — words —


def test_every_way_of_being_invalid_has_its_words() -> None:
    assert {f"books.invalid.{reason}" for reason in get_args(Reason)} <= phrases("en").keys()


def test_a_chapter_that_did_not_pass_says_every_reason() -> None:
    value = ours("1")
    coverage = value["coverage_report"]
    coverage |= {"processed_chunks": 9, "chunk_coverage_percentage": 90.0}
    coverage["recall_set"] |= {"critical_items_covered": 2, "missing_critical_item_ids": ["1-a"]}
    coverage["audit_result"] |= {"passed": False, "invalid_chunks": [{"item_id": "1-a", "chunks": [7]}]}
    value["metadata"]["chunks_processados_por_capitulo"] = {"1": 9}
    value["retoma"] |= {"passed": False, "read_sentences": 70}

    assert all_said(reasons(Checkpoint.model_validate(value)), "pt") == [
        "1 de 10 trechos não foi lido.",
        "10 de 80 frases não foram lidas.",
        "Um ponto essencial falta no resumo: Item.",
        "Um ponto aponta para um trecho que não é dele: 1-a.",
    ]


def test_a_checkpoint_of_the_original_system_is_shown_too() -> None:
    made = Checkpoint.model_validate(original("1"))

    assert [each.text for each in summary_of(made).quotations] == ["Citação um.", "Citação dois."]
    assert reasons(made) == ()
    assert view.spans_of(made, 100) == []


def test_one_example_is_shown_and_a_sentence_that_stands_for_none_is_not() -> None:
    one, none = ours("1"), ours("1")
    one["chapter_summary"]["exemplos"] = ["Um, por exemplo, um rapaz bronco e vilão."]
    one["retoma"]["shortfalls"] = {"exemplos": "O capítulo dá um só exemplo."}
    none["chapter_summary"]["exemplos"] = [NO_EXAMPLES["pt"]]
    none["retoma"]["shortfalls"] = {"exemplos": NO_EXAMPLES["pt"]}

    shown = [summary_of(Checkpoint.model_validate(each)).examples for each in (one, none)]

    assert shown == [("Um, por exemplo, um rapaz bronco e vilão.",), ()]


def test_a_book_that_did_not_pass_says_so_on_the_shelf(house: House, given: dict[type, object]) -> None:
    place = sent(house)
    work(house, given)
    before = house.client.get("/books", headers=HTML).text
    with psycopg.connect(house.settings.database_url or "", autocommit=True) as psql:
        psql.execute("update books.checkpoints set passed = false where chapter_number = '2'")

    after = house.client.get("/books", headers=HTML).text

    assert place in after
    assert ("Reprovado" in before, "Reprovado" in after) == (False, True)


@pytest.mark.parametrize(("read", "total"), [(0, 3), (2, 3), (3, 3), (999, 1000), (1000, 1000), (1, 61)])
def test_a_picture_shows_all_as_read_only_when_all_was_read(read: int, total: int) -> None:
    assert all(view.cells_of(read, total)) == (read == total)


def test_a_chapter_that_was_read_in_part_does_not_count_as_read(house: House, given: dict[type, object]) -> None:
    place = sent(house)
    work(house, given)
    session, standing = house.ask(lambda app: _looked_up(app, place.rpartition("/")[2]))
    partly = replace(standing[0], total_chunks=4, processed_chunks=3)

    made = view.made_from(session, [partly, *standing[1:]])

    assert (made.words, made.words_read) == (session.words, session.words - partly.words)


async def _looked_up(app: Retoma, id: str) -> tuple[Session, list[Standing]]:
    return (await app.fetch(sessions.one(id)))[0], await app.fetch(chapters.standing(id))


def test_the_text_is_cut_at_its_pages_and_a_quotation_is_marked_across_the_end_of_a_line() -> None:
    text = "Era uma vez\numa salina.\n\nFicava longe. Ninguém\nia lá."
    chapter = StoredChapter(1, "1", "x", text, 10, [4, 5], f"[[0, 4], [{text.index('Ficava')}, 5]]", "")

    found = pages_of(chapter, ["uma vez uma salina.", "Ninguém ia lá.", "não está"])

    assert [each.number for each in found] == [4, 5]
    pieces = [(piece.text, piece.quoted) for each in found for one in each.paragraphs for piece in one]
    assert pieces == [
        ("Era ", None), ("uma vez\numa salina.", 1), ("Ficava longe. ", None), ("Ninguém\nia lá.", 2),
    ]  # fmt: skip
