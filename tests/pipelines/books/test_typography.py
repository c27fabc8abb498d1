"""Where a PDF has no outline, its chapters are known by the size and the weight of their headings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from retoma.pipelines.books.ports import ChapterPlan
from retoma.pipelines.books.text import plan
from retoma.providers import Extraction
from retoma.providers.local import LocalExtractor

sys.path.insert(0, str(Path(__file__).parent))

import made_books
import set_pages
from set_pages import Set, body

pytestmark = pytest.mark.timeout(600)

TITLES = ("a casa junto do mar.", "o que o vento trouxe.", "de quem era a salina.", "uma carta sem resposta.")
"""They look like lines of the text; only their letters say what they are."""


def paragraphs(seed: int, words: int = 450) -> list[str]:
    return made_books.Writer(seed).paragraphs(words)


def book(*, size: float = 18, bold: bool = False, scaled: bool = False) -> tuple[list[Set], list[str]]:
    """Lines of a book, and how each of its chapters begins."""
    lines, begins = [], []
    for seed, title in enumerate(TITLES, start=1):
        told = paragraphs(seed)
        lines += [Set(title, size=size, bold=bold, scaled=scaled)]
        lines += [each for paragraph in told for each in body(paragraph)]
        begins.append(" ".join(told[0].split()[:8]))
    return lines, begins


async def read(tmp_path: Path, content: bytes) -> Extraction:
    file = tmp_path / "livro.pdf"
    file.write_bytes(content)
    return await LocalExtractor().extract(file, kind="pdf", timeout=120)


def begins_of(told: ChapterPlan) -> list[tuple[str, str]]:
    return [(each.title, " ".join(each.text.split()[:8])) for each in told.chapters]


@pytest.mark.parametrize(
    "how", [{"size": 18}, {"size": 14}, {"size": 18, "scaled": True}, {"size": 11, "bold": True}], ids=str
)
async def test_headings_that_differ_by_their_letters_alone_begin_chapters(tmp_path: Path, how) -> None:
    lines, begins = book(**how)

    told = plan.detect(await read(tmp_path, set_pages.pdf(set_pages.pages(lines))))

    assert begins_of(told) == list(zip(TITLES, begins, strict=True))
    assert (told.detector, told.doubts) == ("styled", ())


async def test_what_runs_along_the_pages_and_a_large_first_letter_begin_nothing(tmp_path: Path) -> None:
    lines, begins = book()
    place = next(place for place, each in enumerate(lines) if each.text.startswith(begins[1][:20]))
    lines.insert(place, Set(lines[place].text[0], size=33))
    lines[place + 1] = Set(lines[place + 1].text[1:])

    found = await read(tmp_path, set_pages.pdf(set_pages.pages(lines, head="O livro do sal")))

    assert [title for _, title, _ in found.headings] == list(TITLES)
    assert [each.title for each in plan.detect(found).chapters] == list(TITLES)


async def test_a_title_over_two_lines_is_one_and_the_title_of_the_book_is_no_chapter(tmp_path: Path) -> None:
    lines, begins = book()
    place = next(place for place, each in enumerate(lines) if each.text == TITLES[2])
    lines[place : place + 1] = [Set("de quem era a salina, e como", size=18), Set("se soube disso no porto.", size=18)]
    cover = [Set("O LIVRO DO SAL", size=30), Set("contado por quem o viu", size=11)]

    told = plan.detect(await read(tmp_path, set_pages.pdf([cover, *set_pages.pages(lines)])))

    title = "de quem era a salina, e como se soube disso no porto."
    assert begins_of(told) == list(zip((*TITLES[:2], title, TITLES[3]), begins, strict=True))


async def test_a_paragraph_in_bold_letters_is_no_heading(tmp_path: Path) -> None:
    lines, _ = book()
    bold = [Set(each.text, bold=True) for paragraph in paragraphs(9, words=120) for each in body(paragraph)]
    lines[20:20] = bold

    found = await read(tmp_path, set_pages.pdf(set_pages.pages(lines)))

    assert [title for _, title, _ in found.headings] == list(TITLES)


async def test_an_outline_of_the_documents_own_comes_first(tmp_path: Path) -> None:
    lines, _ = book()
    printed = set_pages.pages(lines)
    outline = [("Um", 1), ("Dois", len(printed))]

    found = await read(tmp_path, set_pages.pdf(printed, outline=outline))

    assert (list(found.outline), list(found.headings)) == (outline, [])


async def test_a_text_in_one_size_has_no_headings(tmp_path: Path) -> None:
    lines = [each for paragraph in paragraphs(3) for each in body(paragraph)]

    found = await read(tmp_path, set_pages.pdf(set_pages.pages(lines)))

    assert list(found.headings) == []
