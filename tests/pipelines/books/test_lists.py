"""Small texts of every kind: chapters are found where a reader sees them, and nothing between them is lost."""

from __future__ import annotations

from retoma.bench.evaluation import labelled
from retoma.pipelines.books.ports import Chapter, ChapterPlan
from retoma.pipelines.books.text import plan
from retoma.providers import Extraction, Page

BODY = (
    "O salineiro olha o vento e espera que a água perca o que tem de perder antes de abrir a comporta do tanque. " * 3
)


def detected(*pages: str, outline=()) -> ChapterPlan:
    found = tuple(Page(number=number, text=text) for number, text in enumerate(pages, start=1))
    return plan.detect(Extraction(pages=found, outline=outline, reader="text"))


def chapters_of(*pages: str, outline=()) -> tuple[Chapter, ...]:
    return detected(*pages, outline=outline).chapters


def found(*pages: str, outline=()) -> list[tuple[str, str, str]]:
    told = detected(*pages, outline=outline)
    return [(each.number, each.title, told.detector) for each in told.chapters]


def test_the_table_of_contents_makes_no_chapters_and_the_book_is_parted_right() -> None:
    chapters = chapters_of(labelled.book("pt"))

    assert [(each.number, each.title) for each in chapters] == [
        ("1", "A água e o vento"),
        ("2", "O trabalho da safra"),
        ("3", "O que ficou"),
    ]
    assert chapters[0].text.startswith("Quem chega à salina")
    assert chapters[2].text.endswith("O mar não soube que a salina fechou.")


def test_a_table_of_contents_without_dots_makes_no_chapters_either() -> None:
    text = f"Capítulo 1: Um\nCapítulo 2: Dois\n\nCapítulo 1: Um\n\n{BODY}\n\nCapítulo 2: Dois\n\n{BODY}"

    assert found(text) == [("1", "Um", "named"), ("2", "Dois", "named")]


def test_a_title_below_its_number_is_the_title() -> None:
    text = f"CAPÍTULO I\n\nDa origem\n\n{BODY}\n\nCAPÍTULO II\n\nDo fim\n\n{BODY}"

    assert found(text) == [("I", "Da origem", "named"), ("II", "Do fim", "named")]


def test_chapters_may_be_counted_anew_in_each_part() -> None:
    part = f"Capítulo 1\n\n{BODY}\n\nCapítulo 2\n\n{BODY}"

    chapters = chapters_of(f"Parte I\n\n{part}\n\nParte II\n\n{part}")

    assert [each.number for each in chapters] == ["1", "2", "1 (2)", "2 (2)"]
    assert not any("Parte" in each.text for each in chapters)


def test_an_introduction_and_an_annex_are_chapters_too() -> None:
    parts = ("Introdução", "Capítulo 1 – Um", "Capítulo 2 – Dois", "Anexo I – Tabelas")
    text = "\n\n".join(f"{heading}\n\n{BODY * 2}" for heading in parts)

    assert [number for number, _, _ in found(text)] == ["Introdução", "1", "2", "Anexo I"]


def test_running_heads_and_page_numbers_are_no_text() -> None:
    pages = [f"Caderno do Salineiro\n{BODY}\n{number}" for number in range(1, 7)]
    pages[0] = f"Caderno do Salineiro\nCapítulo 1 – Um\n{BODY}\n1"
    pages[3] = f"Caderno do Salineiro\nCapítulo 2 – Dois\n{BODY}\n4"

    chapters = chapters_of(*pages)

    assert [(each.number, each.pages) for each in chapters] == [("1", (1, 2, 3)), ("2", (4, 5, 6))]
    assert all("Caderno" not in each.text for each in chapters)
    assert chapters[0].text.split() == BODY.split() * 3


def test_a_heading_that_runs_along_its_pages_begins_one_chapter_and_is_no_text() -> None:
    pages = [f"Capítulo {number} – Tema {page}\n{BODY}" for page, number in enumerate((1, 1, 1, 2, 2, 2), start=1)]

    chapters = chapters_of(*pages)

    assert [(each.number, each.pages) for each in chapters] == [("1", (1, 2, 3)), ("2", (4, 5, 6))]
    assert chapters[0].text.split() == BODY.split() * 3


def test_the_outline_of_the_document_comes_first() -> None:
    pages = [f"O sal\n{BODY}", BODY, f"O vento\n{BODY}"]

    told = detected(*pages, outline=[("O sal", 1), ("O vento", 3)])

    assert told.detector == "outline"
    assert [(each.title, each.pages) for each in told.chapters] == [("O sal", (1, 2)), ("O vento", (3,))]
    assert told.chapters[1].text.split() == BODY.split()


def test_markdown_is_parted_at_its_highest_repeated_level_and_code_has_no_headings() -> None:
    text = f"# Livro\n\n## O sal\n{BODY * 2}\n```\n# comment\n# another\n```\n## O vento\n### Detalhe\n{BODY * 2}"

    assert found(text) == [("1", "O sal", "markdown"), ("2", "O vento", "markdown")]


def test_numbered_titles_count_from_three_and_lists_do_not() -> None:
    titles = "\n".join(f"{number}. Tema número {number}\n{BODY}" for number in (1, 2, 3))
    listed = f"{BODY}\n1. Pão\n2. Leite\n3. Café\n{BODY}"

    assert [number for number, _, _ in found(titles)] == ["1", "2", "3"]
    assert [by for _, _, by in found(listed)] == ["whole"]


def test_a_text_without_chapters_is_one() -> None:
    assert found(f"Uma carta\n\n{BODY}") == [("1", "Uma carta", "whole")]


def test_what_stands_before_the_first_chapter_is_chapter_0_when_it_is_long() -> None:
    text = f"Aos leitores\n\n{BODY * 5}\n\nCapítulo 1\n\n{BODY * 4}\n\nCapítulo 2\n\n{BODY * 4}"

    chapters = chapters_of(text)

    assert [each.number for each in chapters] == ["0", "1", "2"]
    assert chapters[0].title == "Aos leitores"
