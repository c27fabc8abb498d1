"""The chapters of a book are found where a reader sees them; what cannot be trusted is said, never hidden."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retoma.bench.evaluation import samples
from retoma.pipelines.books.ports import ChapterPlan
from retoma.pipelines.books.remarks import remark
from retoma.pipelines.books.text import lines, plan
from retoma.pipelines.books.text.headings import read
from retoma.pipelines.books.text.numerals import number
from retoma.providers import Extraction, Page
from retoma.providers.local.readers import epub
from retoma.providers.local.trail import Trail

sys.path.insert(0, str(Path(__file__).parent))

import made_books  # after the path

pytestmark = pytest.mark.timeout(600)

PROSE = "O salineiro olha o vento e espera que a água perca o que tem de perder antes de abrir a comporta. "


def document(*pages: str, outline=(), headings=(), reader: str = "text") -> Extraction:
    return Extraction(
        pages=tuple(Page(number=number, text=text) for number, text in enumerate(pages, start=1)),
        outline=outline,
        headings=headings,
        reader=reader,
    )


def found(*pages: str, **more) -> list[tuple[str, str]]:
    return [(each.number, each.title) for each in plan.detect(document(*pages, **more)).chapters]


def ends(words: list[str]) -> tuple[str, str]:
    return " ".join(words[:12]), " ".join(words[-12:])


def score(books: list[made_books.Book]) -> tuple[float, list[str]]:
    """F1 over chapters of which both boundaries are right, and the books that are one chapter without a word."""
    right = seen = true = 0
    silent = []
    for book in books:
        told = plan.detect(book.document)
        mine = Counter(ends(each.text.split()) for each in told.chapters)
        theirs = Counter((each.begins, each.ends) for each in book.truth)
        right += (mine & theirs).total()
        seen += mine.total()
        true += theirs.total()
        if len(told.chapters) == 1 and not plan.needs_review(told):
            silent.append(book.name)
    return 2 * right / (seen + true), silent


@pytest.mark.parametrize("half", ["open", "kept"])
def test_boundaries_are_right_on_books_of_every_shape(half: str) -> None:
    books = made_books.books(half)

    f1, silent = score(books)

    assert len(books) >= 40
    assert len(made_books.HOSTILE) >= 12
    assert f1 >= 0.95
    assert silent == []


@pytest.mark.parametrize("make", made_books.HOSTILE)
def test_a_hostile_structure_is_seen_through(make) -> None:
    book = make(4242)

    told = plan.detect(book.document)

    assert [ends(each.text.split()) for each in told.chapters] == [(each.begins, each.ends) for each in book.truth]


# — numbers and headings —


@pytest.mark.parametrize(
    ("text", "value", "raw"),
    [
        ("12.", 12, "12"),
        ("XIV", 14, "XIV"),
        ("iv", 4, "iv"),
        ("primeiro", 1, "primeiro"),
        ("Décimo Segundo", 12, "Décimo Segundo"),
        ("vinte e três", 23, "vinte e três"),
        ("Twenty-one", 21, "Twenty-one"),
        ("eleventh", 11, "eleventh"),
    ],
)
def test_numbers_are_read_as_books_write_them(text: str, value: int, raw: str) -> None:
    told = number(text.split())

    assert told is not None
    assert (told[0], told[2]) == (value, raw)


@pytest.mark.parametrize(
    ("line", "style", "value", "title"),
    [
        ("CAPÍTULO IV: DA PROVA", "named", 4, "DA PROVA"),
        ("Capítulo Décimo Primeiro", "named", 11, ""),
        ("CHAPTER THE FIRST", "named", 1, ""),
        ("Primeira Parte", "named", 1, ""),
        ("Cap. 3 — O vento", "named", 3, "O vento"),
        ("CAPÍTULO III A VIÚVA", "named", 3, "A VIÚVA"),
        ("Introdução", "lone", 0, "Introdução"),
        ("XLII", "roman", 42, ""),
        ("– 7 –", "digit", 7, ""),
        ("Terceiro", "word", 3, ""),
        ("IX. O delírio", "roman title", 9, "O delírio"),
        ("3. Resultados e discussão", "numbered", 3, "Resultados e discussão"),
        ("# Capítulo 2 – Sal", "named", 2, "Sal"),
        ("## Um título", "plain", 0, "Um título"),
    ],
)
def test_a_heading_is_known_by_its_look(line: str, style: str, value: int, title: str) -> None:
    told = read(line)

    assert told is not None
    assert (told.style, told.value, told.title) == (style, value, title)


@pytest.mark.parametrize(
    "line",
    [
        "Parte 2 do valor será paga em maio.",
        "Capítulo que trata da prova,",
        "— Capítulo 3?",
        "Capítulo 3 explica isso",
        "O capítulo 3 explica isso.",
        "3. Comprar pão.",
        "D. Pedro chegou à corte no fim da tarde e não quis falar com ninguém.",
        "",
    ],
)
def test_a_sentence_is_no_heading(line: str) -> None:
    assert read(line) is None


def test_a_heading_may_be_broken_over_lines() -> None:
    heads = ["CAPÍTULO\n  PRIMEIRO", "CAPÍTULO II/ NA\nTIJUCA", "CAPÍTULO III / MARQUESA,\nPORQUE SEREI MARQUÊS"]
    text = "\n\n".join(
        f"{head}\n\n{PROSE * 20}" for head in [*heads, "CAPÍTULO IV /\nNOTAS", "CAPÍTULO V\n\nCONCLUSÃO"]
    )

    assert found(text) == [
        ("PRIMEIRO", "PRIMEIRO"),
        ("II", "NA TIJUCA"),
        ("III", "MARQUESA, PORQUE SEREI MARQUÊS"),
        ("IV", "NOTAS"),
        ("V", "CONCLUSÃO"),
    ]


# — what is left out —


def test_what_is_no_chapter_is_left_out_and_said() -> None:
    body = PROSE * 20
    text = (
        "A SALINA\n\nAna Prado\n\nAgradecimentos\n\nA todos.\n\nÍndice\n\nCapítulo 1\nCapítulo 2\nCapítulo 3\n\n"
        f"Capítulo 1\n\n{body}\n\nCapítulo 2\n\n{body}\n\nCapítulo 3\n\n{body}\n\nNotas\n\n1. Uma nota.\n\n"
        "Bibliografia\n\nPrado, Ana. Outro livro.\n\nLicença\n\nEste livro tem licença Creative Commons."
    )

    told = plan.detect(document(text))

    assert [each.number for each in told.chapters] == ["1", "2", "3"]
    assert [each.kind for each in told.left_out] == [
        "front matter", "front matter", "contents", "notes", "back matter", "licence",
    ]  # fmt: skip
    assert all(each.words for each in told.left_out)
    assert told.chapters[-1].text.endswith("abrir a comporta.")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_no_word_is_lost_between_chapters_headings_and_what_is_left_out(seed: int) -> None:
    book = made_books.ordinary(seed)
    told = plan.detect(book.document)
    all_words = sum(len(page.text.split()) for page in book.document.pages)

    kept = sum(each.words for each in told.chapters) + sum(each.words for each in told.left_out)
    furniture = 3 * len(book.document.pages) if len(book.document.pages) > 1 else 0
    headings = 14 * (len(told.chapters) + len(told.left_out)) + 20

    assert all_words - furniture - headings <= kept <= all_words


# — the guard —


def test_a_chapter_with_most_of_the_words_is_looked_at_again_and_parted() -> None:
    inner = "\n\n".join(f"CAPÍTULO {made_books.roman(n)}\n\n{PROSE * 30}" for n in range(1, 30))
    pages = [f"Nota\n\n{PROSE}", f"I\n\n{inner}", "Notas\n\n1. Uma."]

    told = plan.detect(document(*pages, outline=[("Nota", 1), ("I", 2), ("Notas", 3)], reader="epub"))

    assert len(told.chapters) == 29
    assert not plan.needs_review(told)


def test_a_book_that_cannot_be_parted_is_never_accepted_silently() -> None:
    told = plan.detect(document(PROSE * 400))

    assert [each.number for each in told.chapters] == ["1"]
    assert told.detector == "whole"
    assert plan.needs_review(told)
    assert [each.code for each in told.doubts] == ["no_chapters"]


def test_one_chapter_over_sixty_percent_is_doubted() -> None:
    text = f"Capítulo 1\n\n{PROSE * 20}\n\nCapítulo 2\n\n{PROSE * 200}\n\nCapítulo 3\n\n{PROSE * 20}"

    told = plan.detect(document(text))

    assert len(told.chapters) == 3
    assert told.doubts == (remark("chapter_too_large", title="2", percent=83),)


def test_a_list_in_doubt_keeps_its_titles() -> None:
    parts = (("1", "A chegada", 20), ("2", "O que Helena viu", 200), ("3", "A volta", 20))
    text = "\n\n".join(f"CAPÍTULO {number}\n\n{title}\n\n{PROSE * times}" for number, title, times in parts)

    told = plan.detect(document(text))

    assert [(each.number, each.title) for each in told.chapters] == [(number, title) for number, title, _ in parts]
    assert told.doubts == (remark("chapter_too_large", title="O que Helena viu", percent=83),)


def test_two_chapters_in_more_than_sixty_thousand_words_are_doubted() -> None:
    text = f"Capítulo 1\n\n{PROSE * 1700}\n\nCapítulo 2\n\n{PROSE * 1700}"

    told = plan.detect(document(text))

    assert len(told.chapters) == 2
    assert plan.needs_review(told)


def test_a_number_that_is_skipped_is_said() -> None:
    text = "\n\n".join(f"Capítulo {n}\n\n{PROSE * 20}" for n in (1, 2, 4, 5))

    assert remark("numbers_missing", n=1, numbers="3") in plan.detect(document(text)).doubts


def test_a_short_text_is_chapter_one_and_nobody_is_asked() -> None:
    told = plan.detect(document(PROSE * 10))

    assert [(each.number, each.text) for each in told.chapters] == [("1", (PROSE * 10).strip())]
    assert told.doubts == ()


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=400))
def test_any_text_has_chapters_or_is_one(text: str) -> None:
    told = plan.detect(document(text))

    assert isinstance(told, ChapterPlan)
    assert len({each.number.casefold() for each in told.chapters}) == len(told.chapters) >= 1


# — pages —


def test_pages_are_kept_for_chapters_and_for_each_place_in_them() -> None:
    book = made_books.dense_pages(8)

    for chapter in plan.detect(book.document).chapters:
        assert chapter.pages == tuple(range(chapter.pages[0], chapter.pages[-1] + 1))
        for at, page in chapter.page_starts:
            words = chapter.text[at:].split()[:5]
            source = next(each.text for each in book.document.pages if each.number == page)
            assert " ".join(words) in " ".join(source.split())


# — the navigation of a book —

CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="b/book.opf"/></rootfiles></container>'
)


def package(*items: str, spine: int = 3) -> str:
    refs = "".join(f'<itemref idref="p{n}"/>' for n in range(1, spine + 1))
    parts = "".join(f'<item id="p{n}" href="p{n}.xhtml"/>' for n in range(1, spine + 1))
    return f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{parts}{"".join(items)}</manifest><spine>{refs}</spine></package>'


def epub_file(tmp_path: Path, **navigation: str) -> Path:
    items = {
        "nav": '<item id="n" href="nav.xhtml" properties="nav"/>',
        "ncx": '<item id="x" href="toc.ncx" media-type="application/x-dtbncx+xml"/>',
    }
    members = {"META-INF/container.xml": CONTAINER, "b/book.opf": package(*(items[each] for each in navigation))}
    names = {"nav": "b/nav.xhtml", "ncx": "b/toc.ncx"}
    members |= {names[each]: text for each, text in navigation.items()}
    for n in range(1, 4):
        members[f"b/p{n}.xhtml"] = f"<html><body><p>Parte {n}</p><p>{PROSE * 12}</p></body></html>"
    file = tmp_path / "book.epub"
    file.write_bytes(samples.zipped(members))
    return file


NAV = (
    '<!DOCTYPE html><html xmlns:epub="http://www.idpf.org/2007/ops"><body><nav epub:type="toc"><ol>'
    '<li><a href="p1.xhtml">O vento</a></li><li><a href="p2.xhtml#a">A água</a></li>'
    '<li><a href="p3.xhtml">O sal</a></li></ol></nav>'
    '<nav epub:type="landmarks"><ol><li><a href="p1.xhtml">Capa</a></li></ol></nav></body></html>'
)
NCX = (
    '<?xml version="1.0"?><!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">'
    "<ncx><docTitle><text>Livro</text></docTitle><navMap>"
    + "".join(
        f'<navPoint><navLabel><text>{title}</text></navLabel><content src="p{n}.xhtml"/></navPoint>'
        for n, title in enumerate(["O vento", "A água", "O sal"], start=1)
    )
    + "</navMap></ncx>"
)


@pytest.mark.parametrize("navigation", [{"nav": NAV}, {"ncx": NCX}, {"nav": "<html></html>", "ncx": NCX}])
def test_the_navigation_of_an_epub_names_its_chapters(tmp_path: Path, navigation: dict[str, str]) -> None:
    reading = epub.read(epub_file(tmp_path, **navigation), Trail())

    told = plan.detect(reading)

    assert list(reading.outline) == [("O vento", 1), ("A água", 2), ("O sal", 3)]
    assert [(each.number, each.title) for each in told.chapters] == [("1", "O vento"), ("2", "A água"), ("3", "O sal")]
    assert told.detector == "navigation"


def test_headings_that_a_style_marks_are_found_where_the_outline_fails() -> None:
    body = "\n\n".join(f"O que {name} viu.\n\n{PROSE * 20}" for name in ("Ana", "Bento", "Clara", "Davi"))
    headings = [(1, f"O que {name} viu.", 1) for name in ("Ana", "Bento", "Clara", "Davi")]

    assert found(body, headings=headings) == [
        (str(n), f"O que {name} viu.") for n, name in enumerate(("Ana", "Bento", "Clara", "Davi"), start=1)
    ]


def test_a_word_that_is_divided_over_two_pages_is_whole_and_the_running_head_is_not_in_it() -> None:
    pages = [
        Page(number=number, text=f"O Salineiro\nA página {number} fala do vento.\nE assim termina a eva-\n{number}")
        for number in range(1, 6)
    ]
    pages[1:] = [Page(number=each.number, text=each.text.replace("A pág", "poração. A pág")) for each in pages[1:]]

    text = [line.text for line in lines.read(Extraction(pages=pages, reader="test")).all]

    assert text[:3] == ["A página 1 fala do vento.", "E assim termina a evaporação.", "A página 2 fala do vento."]
