"""A real book in Portuguese: its chapters are found exactly, its audit passes, its quotations stand in it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from epubs import complaints

from retoma import Retoma
from retoma.pipelines import BOOKS
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.ports import ChapterPlan
from retoma.pipelines.books.text import plan
from retoma.providers import BlobStore, Extraction, Extractor, Page
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalExtractor
from retoma.testing import drain

pytestmark = pytest.mark.timeout(600)

WORK = Path(__file__).parent / "works" / "o_alienista.txt"
CHAPTERS = {
    "I": (
        "DE COMO ITAGUAÍ GANHOU UMA CASA DE ORATES",
        "As crônicas da vila de Itaguaí dizem que em tempos remotos",
        "as festas públicas; Itaguaí, tinha finalmente uma casa de orates.",
    ),
    "II": (
        "TORRENTES DE LOUCOS",
        "Três dias depois, numa expansão íntima com o boticário Crispim",
        "jantar sem dizer uma só palavra a D. Evarista.",
    ),
    "III": (
        "DEUS SABE O QUE FAZ",
        "Ilustre dama, no fim de dois meses, achou-se a mais",
        "outro devassa o futuro com todas as suas auroras.",
    ),
    "IV": (
        "UMA TEORIA NOVA",
        "Ao passo que D. Evarista, em lágrimas, vinha buscando o",
        "Itaguaí e o universo ficavam à beira de uma revolução.",
    ),
}
"""Number, title, first and last words of every chapter, as a reader sees them in the book."""


def flat(text: str) -> str:
    return " ".join(text.split())


def f1(told: ChapterPlan) -> float:
    """Over chapters whose number, title and both boundaries are right."""
    right = 0
    for each in told.chapters:
        title, begins, ends = CHAPTERS.get(each.number, ("", "\0", "\0"))
        text = flat(each.text)
        right += each.title == title and text.startswith(begins) and text.endswith(ends)
    return 2 * right / (len(told.chapters) + len(CHAPTERS))


def as_printed(text: str) -> list[Page]:
    """The same lines on pages, as a scanner or a printer cuts them."""
    lines = text.split("\n")
    return [
        Page(number=number, text="\n".join(lines[start : start + 40]))
        for number, start in enumerate(range(0, len(lines), 40), start=1)
    ]


@pytest.mark.parametrize("cut", [lambda text: [Page(number=1, text=text)], as_printed], ids=["whole", "pages"])
def test_the_chapters_of_a_real_book_are_found_exactly(cut) -> None:
    told = plan.detect(Extraction(pages=cut(WORK.read_text(encoding="utf-8")), reader="text"))

    assert f1(told) == 1.0
    assert [each.number for each in told.chapters] == list(CHAPTERS)
    assert told.doubts == ()


async def pieces() -> AsyncIterator[bytes]:
    yield await asyncio.to_thread(WORK.read_bytes)


async def test_a_real_book_passes_its_audit_and_every_quotation_stands_in_it(database_url: str, tmp_path: Path) -> None:
    given = {BlobStore: FolderBlobs(tmp_path / "blobs"), Extractor: LocalExtractor()}
    async with Retoma(database_url, extensions=[BOOKS], providers=given) as app:
        books = Books(app)
        id = (await books.summarise(WORK.name, pieces(), title="O Alienista")).session.id
        await drain(app)
        session, results = await books.get(id), await books.results(id)
        exported = (await books.export(id, "markdown")).decode()
        epub = tmp_path / "resumo.epub"
        await asyncio.to_thread(epub.write_bytes, await books.export(id, "epub"))

    texts = {each: flat(text) for each, text in zip(CHAPTERS, _bodies(), strict=True)}
    assert (session.state, session.done, session.passed) == ("done", 4, 4)
    assert list(results) == list(CHAPTERS)
    for number, made in results.items():
        said, coverage = made.chapter_summary, made.coverage_report
        assert made.passed
        assert 300 <= said.palavras_resumo <= 500
        assert 5 <= len(said.pontos_chave) <= 8
        assert 2 <= len(said.citacoes) <= 4
        assert all(flat(each) in texts[number] for each in said.citacoes), "a quotation is verbatim"
        assert coverage.processed_chunks == coverage.total_chunks
        assert made.retoma is not None
        assert made.retoma.read_sentences == made.retoma.sentences > 20
        assert Counter(said.pontos_chave).most_common(1)[0][1] == 1
    assert "# O Alienista" in exported
    assert complaints(epub) == []


def _bodies() -> list[str]:
    """The text of every chapter, by its heading alone."""
    return [each.partition("\n")[2] for each in WORK.read_text(encoding="utf-8").split("CAPÍTULO ")[1:]]
