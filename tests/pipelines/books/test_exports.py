"""A finished book leaves in four formats, and each says the same."""

from __future__ import annotations

import io
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from epubs import complaints
from lxml import etree, html  # type: ignore[import-untyped]

from retoma.pipelines.books.ports import LeftOut, Quotation, Summary
from retoma.pipelines.books.text import plan
from retoma.pipelines.books.text.exports import FORMATS
from retoma.pipelines.books.text.finished import FinishedBook, FinishedChapter
from retoma.providers.local.readers import epub as epub_reader
from retoma.providers.local.readers import pdf as pdf_reader
from retoma.providers.local.trail import Trail

HOSTILE = "Água & <sal> “puro” [12] *não* _sei_ \u0007 `x` | 雪"


def summary(**more) -> Summary:
    values = {
        "text": "O salineiro espera o vento. " * 60 + "\n\n" + HOSTILE,
        "key_points": tuple(f"Ponto {n}: {HOSTILE}" for n in range(1, 6)),
        "quotations": (Quotation(text="O mar não soube.", page=12), Quotation(text="Ninguém disse.", page=None)),
        "examples": ("Por exemplo, trinta dias.", "1. Uma lista"),
    }
    return Summary(**(values | more))


def finished(language: str = "pt", **more) -> FinishedBook:
    chapters = (
        FinishedChapter(
            number="I",
            title="A água & o vento",
            words=900,
            pages=(1, 2),
            summary=summary(),
            passed=True,
            percentage=100.0,
        ),
        FinishedChapter(
            number="II",
            title=HOSTILE,
            words=800,
            pages=(3,),
            summary=summary(examples=(), shortfalls={"exemplos": "O capítulo não dá exemplos."}),
            passed=False,
            percentage=50.0,
            reasons=("Um trecho não foi lido.",),
        ),
        FinishedChapter(number="3", title="3", words=40, pages=(), summary=summary(), passed=True, percentage=100.0),
    )
    values = {
        "session": "0b6f",
        "title": "A salina <e> o vento",
        "author": "Ana Prado",
        "language": language,
        "chapters": chapters,
        "finished_at": datetime(2026, 11, 17, 12, 30, tzinfo=UTC),
        "left_out": (LeftOut(kind="contents", title="Índice", words=40), LeftOut(kind="licence", title="", words=9)),
        "pages": 4,
        "page_address": "https://livros.example/ler?a=1&p={page}#x",
    }
    return FinishedBook(**(values | more))


def made(format: str, book: FinishedBook) -> bytes:
    return FORMATS[format][1](book)


@pytest.mark.parametrize("format", sorted(FORMATS))
@pytest.mark.parametrize("language", ["pt", "en"])
def test_the_same_book_gives_the_same_bytes(format: str, language: str) -> None:
    assert made(format, finished(language)) == made(format, finished(language))


def test_json_names_a_chapter_as_the_contract_does() -> None:
    said = json.loads(made("json", finished()))

    assert said["status"] == "FAIL"
    assert (said["pages_read"], said["pages"]) == (3, 4)
    assert [each["numero"] for each in said["chapters"]] == ["I", "II", "3"]
    assert said["chapters"][0]["citacoes"][0]["link"] == "https://livros.example/ler?a=1&p=12#x"
    assert said["chapters"][1]["shortfalls"] == {"exemplos": "O capítulo não dá exemplos."}
    assert said["executive"][0]["points"]


def test_markdown_keeps_what_the_book_says_from_becoming_a_mark() -> None:
    text = made("markdown", finished()).decode()

    assert "## I. A água & o vento" in text
    assert "**I. A água & o vento**\n\n- Ponto 1" in text, "points of the page on the whole book stand apart"
    assert "[p. 12](<https://livros.example/ler?a=1&p=12#x>)" in text
    assert "\\<sal\\>" in text
    assert "\\*não\\*" in text
    assert "- 1\\. Uma lista" in text
    assert "O capítulo não dá exemplos." in text
    assert "índice: 40 palavras" in text


def test_a_pdf_can_be_read_again_and_has_bookmarks(tmp_path: Path) -> None:
    file = tmp_path / "book.pdf"
    file.write_bytes(made("pdf", finished()))

    reading = pdf_reader.read(file, Trail())

    flat = " ".join(reading.text.split())
    assert "O mar não soube." in flat
    assert "A água & o vento" in flat
    assert "3 de 4 páginas lidas." in flat
    assert [title for title, _ in reading.outline][:3] == [
        "A salina <e> o vento",
        "O livro em uma página",
        "I. A água & o vento",
    ]


def test_no_line_of_a_pdf_leaves_the_page(tmp_path: Path) -> None:
    long = "w" * 400 + " " + "palavra " * 3_000
    book = finished(chapters=(replaced(summary(text=long)),))
    file = tmp_path / "book.pdf"
    file.write_bytes(made("pdf", book))

    reading = pdf_reader.read(file, Trail())

    assert reading.text.count("palavra") >= 3_000
    assert "".join(reading.text.split()).count("w") >= 400


def replaced(told: Summary) -> FinishedChapter:
    return FinishedChapter(number="1", title="Um", words=9, pages=(1,), summary=told, passed=True, percentage=100.0)


def test_an_epub_begins_with_its_kind_and_every_part_is_well_formed() -> None:
    with zipfile.ZipFile(io.BytesIO(made("epub", finished()))) as archive:
        first = archive.infolist()[0]
        assert (first.filename, first.compress_type, first.extra) == ("mimetype", zipfile.ZIP_STORED, b"")
        assert archive.read("mimetype") == b"application/epub+zip"
        for name in archive.namelist():
            if name.endswith((".xhtml", ".opf", ".xml")):
                etree.fromstring(archive.read(name))
        page = html.document_fromstring(archive.read("EPUB/chapter-0001.xhtml").decode().partition("?>")[2])
        assert [link.get("href") for link in page.iter("a")] == ["https://livros.example/ler?a=1&p=12#x"]


def test_an_epub_of_ours_is_read_by_our_own_reader_with_its_navigation(tmp_path: Path) -> None:
    file = tmp_path / "book.epub"
    file.write_bytes(made("epub", finished()))

    reading = epub_reader.read(file, Trail())

    assert "I. A água & o vento" in [title for title, _ in reading.outline]
    assert "I" in [chapter.number for chapter in plan.detect(reading).chapters]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("language", ["pt", "en"])
def test_epubcheck_finds_neither_an_error_nor_a_warning(tmp_path: Path, language: str) -> None:
    files = {"book": finished(language), "bare": finished(language, author="", page_address="", left_out=(), pages=0)}
    for name, book in files.items():
        file = tmp_path / f"{name}.epub"
        file.write_bytes(made("epub", book))

        assert complaints(file) == []


@pytest.mark.timeout(600)
def test_epubcheck_does_find_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "broken.epub"
    with zipfile.ZipFile(io.BytesIO(made("epub", finished()))) as whole, zipfile.ZipFile(file, "w") as broken:
        for each in whole.infolist():
            if each.filename != "EPUB/chapter-0001.xhtml":
                broken.writestr(each, whole.read(each))

    assert complaints(file) != []
