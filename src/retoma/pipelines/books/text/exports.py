"""A finished book for other programs: Markdown, JSON, PDF, EPUB."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from retoma.pipelines.books.text.epub import epub
from retoma.pipelines.books.text.finished import FinishedBook, FinishedChapter, heading
from retoma.pipelines.books.text.pdf import Block
from retoma.pipelines.books.text.pdf import pdf as as_pdf
from retoma.pipelines.books.text.wording import kind, word

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|])")
_LIST = re.compile(r"^(\d+)([.)])|^([-+])", re.MULTILINE)


def markdown(book: FinishedBook) -> bytes:
    """One text with headings; what the book says cannot become a mark of Markdown."""
    return ("\n\n".join(_markdown(book)) + "\n").encode()


def as_json(book: FinishedBook) -> bytes:
    """All of it, under the names that the contract gives to a chapter."""
    said: dict[str, Any] = {
        "session_id": book.session,
        "title": book.title,
        "author": book.author,
        "language": book.language,
        "finished_at": book.finished_at.isoformat(),
        "status": "PASS" if book.passed else "FAIL",
        "pages": book.pages,
        "pages_read": book.pages_read,
        "executive": [asdict(entry) for entry in book.executive],
        "chapters": [_json_chapter(book, chapter) for chapter in book.chapters],
        "left_out": [asdict(each) for each in book.left_out],
    }
    return (json.dumps(said, ensure_ascii=False, indent=2) + "\n").encode()


def pdf(book: FinishedBook) -> bytes:
    """Pages to print, each chapter on a new one."""
    return as_pdf(list(_blocks(book)), title=book.title, language="pt-BR" if book.language == "pt" else "en")


FORMATS: Mapping[str, tuple[str, Callable[[FinishedBook], bytes]]] = {
    "markdown": ("text/markdown; charset=utf-8", markdown),
    "json": ("application/json", as_json),
    "pdf": ("application/pdf", pdf),
    "epub": ("application/epub+zip", epub),
}
"""Media type and writer of each format."""

SUFFIXES = {"markdown": "md", "json": "json", "pdf": "pdf", "epub": "epub"}
"""How the name of a file in each format ends."""


def _json_chapter(book: FinishedBook, chapter: FinishedChapter) -> dict[str, Any]:
    summary = chapter.summary
    return {
        "numero": chapter.number,
        "titulo": chapter.title,
        "palavras": chapter.words,
        "palavras_resumo": len(summary.text.split()),
        "paginas": list(chapter.pages),
        "resumo": summary.text,
        "pontos_chave": list(summary.key_points),
        "citacoes": [
            {"text": each.text, "page": each.page, "link": book.page_link(chapter, each.page) or None}
            for each in summary.quotations
        ],
        "exemplos": list(summary.examples),
        "shortfalls": dict(summary.shortfalls),
        "status": "PASS" if chapter.passed else "FAIL",
        "reasons": list(chapter.reasons),
        "chunk_coverage_percentage": chapter.percentage,
    }


def _markdown(book: FinishedBook) -> Iterator[str]:
    language = book.language
    yield f"# {_escaped(book.title)}"
    if book.author:
        yield _escaped(word(language, "by", author=book.author))
    yield word(language, "passed" if book.passed else "failed")
    yield f"## {word(language, 'executive')}"
    for entry in book.executive:
        name = entry.number if entry.title in {"", entry.number} else f"{entry.number}. {entry.title}"
        yield f"**{_escaped(name)}**"
        yield "\n".join(f"- {_escaped(each)}" for each in entry.points)
    for chapter in book.chapters:
        yield from _markdown_chapter(book, chapter)
    yield f"## {word(language, 'made_from')}"
    yield from _sources(book)
    if book.left_out:
        yield f"### {word(language, 'left_out')}"
        yield "\n".join(
            f"- {word(language, 'left_out_item', kind=kind(language, each.kind), words=each.words)}"
            for each in book.left_out
        )


def _markdown_chapter(book: FinishedBook, chapter: FinishedChapter) -> Iterator[str]:
    language, summary = book.language, chapter.summary
    yield f"## {_escaped(heading(chapter))}"
    if not chapter.passed:
        yield f"> {_escaped(' '.join([word(language, 'chapter_failed'), *chapter.reasons]))}"
    for paragraph in summary.text.split("\n\n"):
        yield _escaped(paragraph)
    yield f"### {word(language, 'points')}"
    yield "\n".join(f"- {_escaped(each)}" for each in summary.key_points)
    if summary.quotations:
        yield f"### {word(language, 'quotations')}"
    for each in summary.quotations:
        page = word(language, "page", page=each.page) if each.page is not None else ""
        link = book.page_link(chapter, each.page)
        where = f" ([{page}](<{link}>))" if link else f" ({page})" if page else ""
        yield f"> {_escaped(each.text)}{where}"
    if excuse := "\n".join(f"- {_escaped(each)}" for each in summary.examples) or summary.shortfalls.get("exemplos"):
        yield f"### {word(language, 'examples')}"
        yield excuse


def _sources(book: FinishedBook) -> Iterator[str]:
    if book.pages:
        yield word(book.language, "read", read=book.pages_read, pages=book.pages)
    words = sum(chapter.words for chapter in book.chapters)
    yield word(book.language, "read_words", words=words, chapters=len(book.chapters))


def _escaped(text: str) -> str:
    flat = _SPECIAL.sub(r"\\\1", " ".join(text.split()))
    return _LIST.sub(lambda found: f"{found[1]}\\{found[2]}" if found[1] else f"\\{found[3]}", flat)


def _blocks(book: FinishedBook) -> Iterator[Block]:
    language = book.language
    yield Block("title", book.title)
    if book.author:
        yield Block("text", word(language, "by", author=book.author))
    yield Block("text", word(language, "passed" if book.passed else "failed"))
    yield Block("heading", word(language, "executive"))
    for entry in book.executive:
        if entry.points:
            yield Block(
                "subheading", entry.number if entry.title in {"", entry.number} else f"{entry.number}. {entry.title}"
            )
            for each in entry.points:
                yield Block("item", each)
    for chapter in book.chapters:
        yield from _chapter_blocks(book, chapter)
    yield Block("heading", word(language, "made_from"))
    for told in _sources(book):
        yield Block("text", told)
    if book.left_out:
        yield Block("subheading", word(language, "left_out"))
    for part in book.left_out:
        yield Block("item", word(language, "left_out_item", kind=kind(language, part.kind), words=part.words))


def _chapter_blocks(book: FinishedBook, chapter: FinishedChapter) -> Iterator[Block]:
    language, summary = book.language, chapter.summary
    yield Block("heading", heading(chapter))
    if not chapter.passed:
        yield Block("text", " ".join([word(language, "chapter_failed"), *chapter.reasons]))
    for paragraph in summary.text.split("\n\n"):
        yield Block("text", paragraph)
    yield Block("subheading", word(language, "points"))
    for each in summary.key_points:
        yield Block("item", each)
    if summary.quotations:
        yield Block("subheading", word(language, "quotations"))
    for quotation in summary.quotations:
        yield Block("quotation", quotation.text)
        if quotation.page is not None:
            yield Block("small", word(language, "page", page=quotation.page))
    if summary.examples or summary.shortfalls.get("exemplos"):
        yield Block("subheading", word(language, "examples"))
    for example in summary.examples:
        yield Block("item", example)
    if not summary.examples and summary.shortfalls.get("exemplos"):
        yield Block("text", summary.shortfalls["exemplos"])
