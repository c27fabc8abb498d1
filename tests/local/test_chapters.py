"""Chapters are found where a reader would see them, and nothing between them is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retoma.bench.evaluation import labelled
from retoma.providers import Extraction, Page
from retoma.providers.local.chapters import find_chapters
from retoma.providers.local.headings import read_title

BODY = (
    "O salineiro olha o vento e espera que a água perca o que tem de perder antes de abrir a comporta do tanque. " * 3
)


def document(*pages: str, outline=()) -> Extraction:
    return Extraction(
        pages=tuple(Page(number=number, text=text) for number, text in enumerate(pages, start=1)),
        outline=outline,
        reader="text",
    )


def found(*pages: str, outline=()) -> list[tuple[str, str, str]]:
    return [(each.number, each.title, each.found_by) for each in find_chapters(document(*pages, outline=outline))]


@pytest.mark.parametrize(
    ("line", "number", "title"),
    [
        ("Capítulo 3 – O vento", "3", "O vento"),
        ("CAPÍTULO IV: DA PROVA", "IV", "DA PROVA"),
        ("Chapter 12. The river", "12", "The river"),
        ("Capítulo primeiro", "primeiro", "Capítulo primeiro"),
        ("PARTE II", "II", "PARTE II"),
        ("Seção 2 - Recursos", "2", "Recursos"),
        ("Anexo A – Tabelas", "A", "Tabelas"),
        ("Introdução", "", "Introdução"),
        ("## 2. Método", "2", "Método"),
        ("3. Resultados e discussão", "3", "Resultados e discussão"),
    ],
)
def test_a_heading_is_known_by_its_look(line: str, number: str, title: str) -> None:
    told = read_title(line)

    assert told is not None
    assert (told.number, told.title) == (number, title)


@pytest.mark.parametrize(
    "line",
    [
        "Parte 2 do valor será paga em maio.",
        "Capítulo que trata da prova,",
        "O capítulo 3 explica isso.",
        "3. Comprar pão.",
        "1500 reais",
        "Título de crédito",
        "",
    ],
)
def test_a_sentence_is_no_heading(line: str) -> None:
    assert read_title(line) is None


def test_the_table_of_contents_makes_no_chapters_and_the_book_is_parted_right() -> None:
    chapters = find_chapters(document(labelled.book("pt")))

    assert [(each.number, each.title) for each in chapters] == [
        ("1", "A água e o vento"),
        ("2", "O trabalho da safra"),
        ("3", "O que ficou"),
    ]
    assert chapters[0].text.startswith("Quem chega à salina")
    assert chapters[2].text.endswith("O mar não soube que a salina fechou.")


def test_a_table_of_contents_without_dots_makes_no_chapters_either() -> None:
    text = f"Capítulo 1: Um\nCapítulo 2: Dois\n\nCapítulo 1: Um\n{BODY}\nCapítulo 2: Dois\n{BODY}"

    assert found(text) == [("1", "Um", "named"), ("2", "Dois", "named")]


def test_a_title_below_its_number_is_the_title() -> None:
    text = f"CAPÍTULO I\n\nDa origem\n\n{BODY}\n\nCAPÍTULO II\n\nDo fim\n\n{BODY}"

    assert found(text) == [("I", "Da origem", "named"), ("II", "Do fim", "named")]


def test_chapters_may_be_counted_anew_in_each_part() -> None:
    part = f"Capítulo 1\n{BODY}\nCapítulo 2\n{BODY}"

    chapters = find_chapters(document(f"Parte I\n{part}\nParte II\n{part}"))

    assert [each.number for each in chapters] == ["1", "2", "1 (2)", "2 (2)"]
    assert not any("Parte" in each.text for each in chapters)


def test_an_introduction_and_an_annex_are_chapters_too() -> None:
    text = f"Introdução\n{BODY}\nCapítulo 1 – Um\n{BODY}\nCapítulo 2 – Dois\n{BODY}\nAnexo I – Tabelas\n{BODY}"

    assert [number for number, _, _ in found(text)] == ["Introdução", "1", "2", "Anexo I"]


def test_running_heads_and_page_numbers_are_no_text() -> None:
    pages = [f"Caderno do Salineiro\n{BODY}\n{number}" for number in range(1, 7)]
    pages[0] = f"Caderno do Salineiro\nCapítulo 1 – Um\n{BODY}\n1"
    pages[3] = f"Caderno do Salineiro\nCapítulo 2 – Dois\n{BODY}\n4"

    chapters = find_chapters(document(*pages))

    assert [(each.number, each.pages) for each in chapters] == [("1", (1, 2, 3)), ("2", (4, 5, 6))]
    assert all("Caderno" not in each.text for each in chapters)
    assert chapters[0].text.split() == BODY.split() * 3


def test_a_heading_that_runs_along_its_pages_begins_one_chapter_and_is_no_text() -> None:
    pages = [f"Capítulo {number} – Tema {page}\n{BODY}" for page, number in enumerate((1, 1, 1, 2, 2, 2), start=1)]

    chapters = find_chapters(document(*pages))

    assert [(each.number, each.pages) for each in chapters] == [("1", (1, 2, 3)), ("2", (4, 5, 6))]
    assert chapters[0].text.split() == BODY.split() * 3


def test_the_outline_of_the_document_comes_first() -> None:
    pages = [f"O sal\n{BODY}", BODY, f"O vento\n{BODY}"]

    chapters = find_chapters(document(*pages, outline=[("O sal", 1), ("O vento", 3)]))

    assert [(each.title, each.pages, each.found_by) for each in chapters] == [
        ("O sal", (1, 2), "outline"),
        ("O vento", (3,), "outline"),
    ]
    assert chapters[1].text.split() == BODY.split()


def test_markdown_is_parted_at_its_highest_repeated_level_and_code_has_no_headings() -> None:
    text = f"# Livro\n\n## Um\n{BODY}\n```\n# comment\n# another\n```\n## Dois\n### Detalhe\n{BODY}"

    assert found(text) == [("1", "Um", "markdown"), ("2", "Dois", "markdown")]


def test_numbered_titles_count_from_three_and_lists_do_not() -> None:
    titles = "\n".join(f"{number}. Tema número {number}\n{BODY}" for number in (1, 2, 3))
    listed = f"{BODY}\n1. Pão\n2. Leite\n3. Café\n{BODY}"

    assert [number for number, _, _ in found(titles)] == ["1", "2", "3"]
    assert [by for _, _, by in found(listed)] == ["whole"]


def test_a_text_without_chapters_is_one() -> None:
    assert found(f"Uma carta\n\n{BODY}") == [("1", "Uma carta", "whole")]


def test_what_stands_before_the_first_chapter_is_chapter_0_when_it_is_long() -> None:
    text = f"Aos leitores\n{BODY * 3}\nCapítulo 1\n{BODY}\nCapítulo 2\n{BODY}"

    chapters = find_chapters(document(text))

    assert (chapters[0].number, chapters[0].title) == ("0", "Aos leitores")


LINES = [
    "Capítulo 1",
    "Capítulo 2 – Dois",
    "Parte I",
    "# Um",
    "## Dois",
    "1. Tema",
    "2. Outro",
    "3. Mais",
    "7",
    "",
    BODY,
]


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=30), st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_numbers_are_unique_and_every_sentence_is_in_one_chapter(lines: list[str], pages: int) -> None:
    size = -(-len(lines) // pages)
    parts = ["\n".join(lines[start : start + size]) for start in range(0, len(lines), size)]

    chapters = find_chapters(document(*parts))

    assert len({each.number for each in chapters}) == len(chapters) >= 1
    kept = sum(each.text.count(BODY.strip()) for each in chapters)
    # One body before the first heading is too short for an opening; two are not.
    assert lines.count(BODY) - kept <= (chapters[0].found_by != "whole" and chapters[0].number != "0")
