"""A heading is known by its look, and a sentence is none."""

import pytest

from retoma.providers.local.headings import read_title


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
