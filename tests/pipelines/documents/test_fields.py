"""What a document says under a name, and how sure that is."""

from __future__ import annotations

import pytest

from retoma.pipelines.documents.fields import MOST, find_fields
from retoma.providers import Extraction, Field, Page, Table


def read(text: str, *, source: str = "text", **more: object) -> Extraction:
    return Extraction(pages=[Page(number=1, text=text, source=source)], reader="test", **more)


def test_lines_with_a_colon_are_fields() -> None:
    found = find_fields(read("Locador: Maria da Silva\nValor do aluguel:  R$ 1.200,00 \n- CPF/MF: 123.456.789-00\n"))

    assert [(field.name, field.value) for field in found] == [
        ("Locador", "Maria da Silva"),
        ("Valor do aluguel", "R$ 1.200,00"),
        ("CPF/MF", "123.456.789-00"),
    ]
    assert {field.confidence for field in found} == {0.6}


@pytest.mark.parametrize(
    "line",
    [
        "às 10:30 horas",
        "https://example.org/a: b",
        "o contratante declara: que sim",
        "Por este instrumento as partes acima nomeadas e abaixo assinadas ajustam entre si: o seguinte",
        "12: 13",
        "Nome:",
    ],
)
def test_prose_addresses_and_hours_are_none(line: str) -> None:
    assert find_fields(read(line)) == []


@pytest.mark.parametrize(
    "line", ["Aº" * 5000, "A" + " a" * 50_000, "A.-(" * 20_000, "A" * 200_000, " " * 200_000 + ":"]
)
def test_no_line_takes_long_to_be_read(line: str) -> None:
    assert find_fields(read(f"{line}\nNº do contrato: 7")) == [
        Field(name="Nº do contrato", value="7", confidence=0.6, page=1)
    ]


def test_a_table_of_two_columns_is_surer_than_a_line_and_a_picture_less_sure() -> None:
    table = Table(rows=[["Aluguel", "1.200,00"], ["Condomínio:", "300,00"], ["1", "2"], ["Multa", ""]], page=1)
    wide = Table(rows=[["a", "b", "c"]], page=1)

    clear = find_fields(read("Prazo: 30 dias", tables=[table, wide]))
    scanned = find_fields(read("Prazo: 30 dias", source="ocr", tables=[table, wide]))

    assert [(field.name, field.confidence) for field in clear] == [
        ("Aluguel", 0.75), ("Condomínio", 0.75), ("Prazo", 0.6),
    ]  # fmt: skip
    assert [field.confidence for field in scanned] == [0.6, 0.6, 0.48]


def test_what_the_reader_itself_found_wins() -> None:
    own = [Field(name="Locador:", value="Ana", confidence=0.93, page=1), Field(name="CPF:", value="", confidence=0.4)]

    found = find_fields(read("Locador: Maria\nPrazo: 30 dias", fields=own))

    assert [(field.name, field.value, field.confidence) for field in found] == [
        ("Locador", "Ana", 0.93), ("Prazo", "30 dias", 0.6),
    ]  # fmt: skip


def test_there_are_at_most_two_hundred_and_none_twice() -> None:
    text = "\n".join(f"Campo número: {number}\nCampo número: {number}" for number in range(500))

    found = find_fields(read(text))

    assert len(found) == MOST
    assert [field.value for field in found] == [str(number) for number in range(MOST)]


def test_a_number_whose_check_digits_are_right_is_certain_and_one_that_is_wrong_is_not() -> None:
    text = (
        "CNPJ: 11.222.333/0001-81\nCPF: 111.222.333-44\n"
        "A ré, de CPF 529.982.247-25, pagou R$ 10,00 em 3 de maio de 2026."
    )

    found = {(each.name, each.value): each.confidence for each in find_fields(read(text, source="ocr"))}

    assert found == {
        ("CNPJ", "11.222.333/0001-81"): 1.0,
        ("CPF", "529.982.247-25"): 1.0,
        ("CPF", "111.222.333-44"): 0.48,
        ("Valor", "R$ 10,00"): 0.72,
        ("Data", "3 de maio de 2026"): 0.72,
    }


def test_a_name_in_capitals_above_its_value_in_a_cell_is_a_field() -> None:
    boxes = Table(
        rows=[["NOME / RAZÃO SOCIAL\nAlfa Ltda.", "CNPJ\n11.222.333/0001-81", "Uma frase\nem duas linhas"]], page=1
    )

    found = find_fields(read("", tables=[boxes]))

    assert [(each.name, each.value, each.confidence) for each in found] == [
        ("NOME / RAZÃO SOCIAL", "Alfa Ltda.", 0.75), ("CNPJ", "11.222.333/0001-81", 1.0),
    ]  # fmt: skip
