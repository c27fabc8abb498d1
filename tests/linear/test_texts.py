"""What is done to whole texts takes time in proportion to their length, whatever they say."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from retoma.cli.errors import without_passwords
from retoma.errors import RetomaError
from retoma.isolate import Isolated
from retoma.pipelines.books.text.plan import detect
from retoma.pipelines.books.text.sentences import sentences_of
from retoma.pipelines.classification import excerpt, labels
from retoma.pipelines.documents.chunking import cut
from retoma.pipelines.documents.fields import find_fields
from retoma.pipelines.quotes.pricing import money
from retoma.pipelines.quotes.pricing.extract import read_price
from retoma.providers import Extraction, Page
from retoma.providers.local import kinds, markup
from retoma.providers.local.readers import html
from retoma.providers.local.sentences import sentences
from retoma.providers.requests.ask import json_in

LENGTH = 12_000
SUSPECT_SECONDS = 0.02
LINEAR = 2.8

PIECES = (
    "a", " ", "\n", "\t", "a ", "a\n", "art. ", "Art. 1. ", "Art. 1\n", "n. 1 ", "Capítulo 1\n", "CLÁUSULA PRIMEIRA\n",
    "§ 1 ", "Valor: 1\n", "Valor: a  b ", "- a: b\n", "```\n", "```labels\n", "```x\n", "<p> ", "<p>a</p>", "<div>",
    "</p ", "|a|b|\n", "\f", "# a\n", "#", "1.1", "A. ", "a, ", '"', "'", "{", "}", "[", "AAA\n", "a.\n", "- ", "•\n",
    "R$ 1,", "10x de R$ ", '<b class="price">', '{"@type":"Product","offers":[', "<s>1",
    "://a:b@", "e.g. ", "\n \n", "1) a\n", "Título ... 1\n", "\u200b", "\u00a0",
)  # fmt: skip
TEXTS = [
    *(("", piece) for piece in PIECES),
    ("- a: b", " "),
    ("Valor total: a", " "),
    ("Valor total: a", "\t\u00a0"),
    ("```labels\n", "- a: b\n"),
    ("Título", " ."),
    ("<p", " "),
]


def _read(text: str) -> Extraction:
    return Extraction(pages=(Page(number=1, text=text),), reader="here")


def _outlined(text: str) -> Any:
    pages = (Page(number=1, text=text),)
    outline = tuple((f"Título {number}", 1) for number in range(len(text) // 40))
    return detect(Extraction(pages=pages, reader="here", outline=outline))


WORK: dict[str, Callable[[str], Any]] = {
    "cut": lambda text: cut.function(_read(text)),
    "fields": lambda text: find_fields.function(_read(text)),
    "sentences": lambda text: sentences(text, "pt"),
    "chapters of a book by its outline": _outlined,
    "chapters of a book": lambda text: detect(_read(text)),
    "sentences of a book": sentences_of,
    "clean": markup.clean,
    "html": lambda text: html.parts_of(text, "page.html", page=1),
    "kind": lambda text: kinds.detect_in(io.BytesIO(text.encode()), "file"),
    "columns": kinds.delimiter,
    "categories": labels.parsed,
    "part": lambda text: excerpt.cut(text, mode="chunk", position="end", tokens=100),
    "json of an answer": lambda text: list(json_in(text)),
    "price on a page": lambda text: read_price(text, "https://loja.com.br/p/1"),
    "price in data": lambda text: read_price(
        f'<script type="application/ld+json">{text}</script>', "https://a.com.br/p"
    ),
    "amounts": lambda text: list(money.amounts(text)),
    "words of an error": without_passwords,
}


def _seconds(work: Callable[[str], Any], text: str) -> float:
    begun = time.thread_time()
    with suppress(RetomaError, ValueError):
        work(text)
    return time.thread_time() - begun


def _grows(work: Callable[[str], Any], before: str, piece: str) -> bool:
    def text(length: int) -> str:
        return before + piece * (length // len(piece)) + "c"

    def ratio(length: int) -> float:
        long = min(_seconds(work, text(2 * length)) for _ in range(2))
        return long / max(min(_seconds(work, text(length)) for _ in range(2)), 1e-6)

    if _seconds(work, text(LENGTH)) < SUSPECT_SECONDS:
        return False
    return all(ratio(LENGTH * times) > LINEAR for _ in range(2) for times in (1, 2))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", WORK)
def test_a_whole_text_takes_time_in_proportion_to_its_length(what: str) -> None:
    WORK[what]("Um texto. E outro.\nValor: 1\n- a: b\n- c: d")  # what is loaded once is loaded

    slow = [text for text in TEXTS if _grows(WORK[what], *text)]

    assert slow == []


async def test_whole_documents_are_cut_and_named_in_a_child() -> None:
    extraction = _read("Valor: 10 reais\n" + "palavra " * 50)

    chunks, fields = await cut.run(extraction), await find_fields.run(extraction)

    assert isinstance(cut, Isolated)
    assert isinstance(find_fields, Isolated)
    assert (chunks, fields) == (cut.function(extraction), find_fields.function(extraction))
