"""Tables of text: encodings, separators, rows and columns, for every product that takes them."""

from __future__ import annotations

import pytest

from retoma.pipelines.files.tables import NoText, RowUnreadable, decoded, places_of, plain, rows_of, separator_of

TEXT = "código;descrição\n1;cadeira, giratória\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_the_encodings_of_spreadsheets_are_recognised(encoding: str) -> None:
    assert decoded(TEXT.encode(encoding))[0] == TEXT


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(NoText, match="no text"):
        decoded(b"\x00\x01\x02")


@pytest.mark.parametrize("sign", [";", ",", "\t", "|"])
def test_the_sign_that_most_lines_agree_on_parts_the_columns(sign: str) -> None:
    assert separator_of(f"a{sign}b\n1{sign}two words\n2{sign}x\n") == sign


def test_a_row_has_the_line_it_begins_on() -> None:
    assert list(rows_of('a;b\n"1\n2";c\nd;e\n', ";")) == [(1, ["a", "b"]), (2, ["1\n2", "c"]), (4, ["d", "e"])]


def test_a_row_that_cannot_be_read_is_told_by_its_line() -> None:
    with pytest.raises(RowUnreadable, match="Line 2 cannot be read") as told:
        list(rows_of("a;b\n" + "x" * 200_000 + ";c\n", ";"))

    assert told.value.line == 2


def test_columns_are_known_by_what_people_call_them_and_people_may_know_better() -> None:
    names = {"code": ("codigo", "id"), "text": ("descricao",)}

    assert places_of(["Descrição", "CÓDIGO"], names) == {"code": 1, "text": 0}
    assert places_of(["Descrição", "Nº", "Código"], names, {"code": "nº"}) == {"code": 1, "text": 0}
    assert places_of(["Descrição", "Código"], names, {"code": "-"}) == {"text": 0}


def test_accents_marks_and_capitals_do_not_count() -> None:
    assert plain("  Petição — Inicial ") == plain("peticao inicial") == "peticao inicial"
