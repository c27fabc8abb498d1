"""Values of Brazilian papers are exact: what has wrong check digits, or no day in the calendar, is none."""

from __future__ import annotations

import pytest

from retoma.providers.local import papers

KEY = "35260311222333000181550010000012341000012341"


def key_of(first: str) -> str:
    """An access key of these 43 digits."""
    return next(f"{first}{digit}" for digit in "0123456789" if papers.is_access_key(f"{first}{digit}"))


def found(text: str) -> list[tuple[str, str]]:
    return [(each.kind, each.exact) for each in papers.find(text)]


@pytest.mark.parametrize(
    ("text", "kind", "exact"),
    [
        ("CNPJ 11.222.333/0001-81", "cnpj", "11.222.333/0001-81"),
        ("inscrita no CNPJ sob o nº 11222333000181.", "cnpj", "11.222.333/0001-81"),
        ("CNPJ: 12.ABC.345/01DE-35", "cnpj", "12.ABC.345/01DE-35"),
        ("CPF nº 529.982.247-25", "cpf", "529.982.247-25"),
        ("CPF 52998224725", "cpf", "529.982.247-25"),
        ("Processo nº 0000100-68.2008.8.26.0100", "process", "0000100-68.2008.8.26.0100"),
        ("autos 00001006820088260100", "process", "0000100-68.2008.8.26.0100"),
        ("CEP 01310-100", "cep", "01310-100"),
        ("CEP: 01.310-100", "cep", "01310-100"),
        ("CEP 01310100", "cep", "01310-100"),
        ("veículo de placa ABC-1234", "plate", "ABC1234"),
        ("Placa: BRA2E19", "plate", "BRA2E19"),
        ("em 03/03/2026,", "date", "2026-03-03"),
        ("em 3.3.2026.", "date", "2026-03-03"),
        ("em 03/03/98", "date", "1998-03-03"),
        ("2026-03-03T10:00", "date", None),
        ("2026-03-03", "date", "2026-03-03"),
        ("São Paulo, 1º de março de 2026.", "date", "2026-03-01"),
        ("3 de Março\nde 2.026", "date", "2026-03-03"),
        ("Aos trinta e um dias do mês de dezembro do ano de dois mil e vinte e cinco", "date", "2025-12-31"),
        ("três de maio de mil novecentos e noventa e oito", "date", "1998-05-03"),
        ("R$ 1.234,56", "money", "1234.56"),
        ("R$1500", "money", "1500.00"),
        ("R$ 2,5 milhões", "money", "2500000.00"),
        ("cobra 1.200,00 reais", "money", "1200.00"),
    ],
)
def test_a_value_is_found_in_every_way_to_write_it(text: str, kind: str, exact: str | None) -> None:
    assert found(text) == ([(kind, exact)] if exact else [])


@pytest.mark.parametrize(
    "text",
    [
        "CNPJ 11.222.333/0001-82", "CNPJ 00.000.000/0000-00", "CPF 529.982.247-26", "CPF 111.111.111-11",
        "tel. 52998224725", "protocolo 11222333000181", "Processo 0000100-69.2008.8.26.0100", "31/02/2026",
        "31 de fevereiro de 2026", "99/99/9999", "ISO-9001 e LEI-8112", "versão 1.2.3", "R$ 12.34", "R$ ,50",
        KEY[:-1] + ("0" if KEY[-1] != "0" else "1") + "9",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_value_is_none(text: str) -> None:
    assert found(text) == []


def test_the_access_key_of_an_invoice_is_found_in_groups_and_nothing_else_in_it() -> None:
    key = key_of(KEY[:43])
    wrong = key[:43] + str((int(key[43]) + 1) % 10)

    assert found(" ".join(key[at : at + 4] for at in range(0, 44, 4))) == [("access_key", key)]
    assert found(wrong) == []


def test_several_values_come_in_their_order() -> None:
    text = "A empresa de CNPJ 11.222.333/0001-81 paga R$ 10,00 em 05/05/2026 a quem tem o CPF 529.982.247-25."

    assert [kind for kind, _ in found(text)] == ["cnpj", "money", "date", "cpf"]


def test_the_value_of_a_field_is_the_one_it_begins_with() -> None:
    told = papers.value_of("R$ 1.500,00 (mil e quinhentos reais)", "Valor")
    plain = papers.value_of("Rua Augusta, 10, CEP 01310-100", "Endereço")
    bare = papers.value_of("52998224725", "CPF")

    assert told is not None
    assert told.exact == "1500.00"
    assert plain is None
    assert bare is not None
    assert bare.exact == "529.982.247-25"
