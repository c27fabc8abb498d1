"""Lists of items: columns and encodings are recognised, each bad row is told, and none is lost."""

from __future__ import annotations

import io
import zipfile
from decimal import Decimal
from typing import Any

import openpyxl
import pytest

from retoma.errors import IsolatedCrash, IsolatedFailure, IsolatedMemory, IsolatedTimeout
from retoma.pipelines.quotes import workbooks
from retoma.pipelines.quotes.lists import MOST_BYTES, ListRefused, read_list, read_text


def book(*rows: list[Any]) -> bytes:
    workbook = openpyxl.Workbook()
    for row in rows:
        workbook.active.append(row)
    written = io.BytesIO()
    workbook.save(written)
    return written.getvalue()


def with_part(content: bytes, name: str, part: bytes) -> bytes:
    written = io.BytesIO(content)
    with zipfile.ZipFile(written, "a", zipfile.ZIP_DEFLATED) as package:
        package.writestr(name, part)
    return written.getvalue()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "latin-1", "utf-16"])
@pytest.mark.parametrize("separator", [";", ",", "\t", "|"])
def test_columns_encodings_and_separators_are_recognised(encoding: str, separator: str) -> None:
    rows = [["Código", "Descrição do Bem", "Qtde", "Localização"], ["7", "Cadeira giratória", "2", "Sala 1"]]
    content = "\r\n".join(separator.join(row) for row in rows).encode(encoding)

    found = read_list(content, filename="lista.csv")

    (item,) = found.items
    assert (item.line, item.code, item.text, item.place) == (2, "7", "Cadeira giratória", "Sala 1")
    assert item.quantity == Decimal(2)
    assert found.columns["description"] == "Descrição do Bem"


def test_a_column_of_its_own_needs_no_separator() -> None:
    assert [each.text for each in read_list(b"produto\nMesa\nCadeira\n").items] == ["Mesa", "Cadeira"]


def test_a_title_above_the_table_is_passed_over() -> None:
    found = read_list(book(["Prefeitura"], [], ["Tombo", "Denominação"], [123.0, "Mesa"]), filename="a.xlsx")

    assert [(each.line, each.code, each.text) for each in found.items] == [(4, "123", "Mesa")]


def test_people_may_say_which_column_is_which() -> None:
    found = read_list(b"a;b\n1;Mesa\n", columns={"description": "b", "code": "a"})

    assert [(each.code, each.text) for each in found.items] == [("1", "Mesa")]


def test_a_quoted_cell_may_hold_lines_and_the_next_row_keeps_its_own() -> None:
    found = read_list(b'codigo;descricao\n1;"Mesa\nde canto"\n2;\n')

    assert found.items[0].text == "Mesa de canto"
    assert [(each.line, each.reason) for each in found.problems] == [(4, "description_missing")]


def test_every_row_is_an_item_or_a_problem_with_its_line() -> None:
    rows = ["descricao;quantidade;codigo", "Mesa;1.234,5;1", ";1;2", "Cadeira;muitas;3", f"{'x' * 4001};1;4",
            f"Banco;1;{'9' * 101}", ";;", "Sofá;-1;5"]  # fmt: skip

    found = read_list("\n".join(rows).encode())

    assert [(each.line, each.quantity) for each in found.items] == [(2, Decimal("1234.5"))]
    assert [(each.line, each.reason) for each in found.problems] == [
        (3, "description_missing"),
        (4, "quantity_unreadable"),
        (5, "description_too_long"),
        (6, "code_too_long"),
        (8, "quantity_unreadable"),
    ]


def test_ten_thousand_items_are_taken_and_one_more_is_refused() -> None:
    content = b"descricao\n" + b"Mesa\n" * 10_000

    assert len(read_list(content).items) == 10_000
    with pytest.raises(ListRefused) as refused:
        read_list(content + b"Mesa\n")
    assert refused.value.code == "list_too_long"


BAD = {
    "list_empty": (b" \n", "a.csv"),
    "list_too_large": (b"x" * (MOST_BYTES + 1), "a.csv"),
    "list_without_descriptions": (b"a;b\n1;2\n", "a.csv"),
    "list_not_text": (b"\x89PNG\0\0\1\2", "a.csv"),
    "list_old_format": (b"\xd0\xcf\x11\xe0\xa1\xb1", "a.xls"),
    "list_damaged": (b"no zip at all", "a.xlsx"),
    "list_has_macros": (with_part(book(["descricao"]), "xl/vbaProject.bin", b"x"), "a.xlsm"),
}


@pytest.mark.parametrize("code", BAD)
def test_a_file_that_is_no_list_is_refused_by_a_word_that_stays(code: str) -> None:
    content, filename = BAD[code]

    with pytest.raises(ListRefused) as refused:
        read_list(content, filename=filename)

    assert refused.value.code == code
    assert refused.value.next


def test_a_workbook_that_was_cut_or_lacks_a_part_is_told_as_damaged() -> None:
    whole = book(["descricao"], ["Mesa"])
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w") as package:
        package.writestr("[Content_Types].xml", "<Types/>")
        package.writestr("xl/workbook.xml", "<workbook")

    for content in (whole[: len(whole) // 2], empty.getvalue()):
        with pytest.raises(ListRefused) as refused:
            read_list(content, filename="a.xlsx")
        assert refused.value.code == "list_damaged"


def test_a_workbook_that_unpacks_to_a_bomb_is_refused_unread() -> None:
    with pytest.raises(ListRefused) as refused:
        read_list(with_part(book(["descricao"]), "xl/media/bomb.bin", b"\0" * (201 << 20)), filename="a.xlsx")

    assert refused.value.code == "list_too_large"


def test_items_in_one_text_are_parted_by_semicolons_and_lines() -> None:
    assert [each.text for each in read_text("Mesa; Cadeira\n\nSofá;").items] == ["Mesa", "Cadeira", "Sofá"]


def test_a_column_may_be_taken_away_even_where_a_header_is_empty() -> None:
    found = read_list(b"codigo;descricao;\n7;Mesa;x\n", columns={"code": "-", "place": "-"})

    (item,) = found.items
    assert (item.text, item.code, item.place) == ("Mesa", None, None)


def test_a_list_whose_columns_nobody_knows_tells_its_headers() -> None:
    with pytest.raises(ListRefused) as refused:
        read_list(b"X1;X2;\nmesa;3;\n")

    assert (refused.value.code, refused.value.headers) == ("list_without_descriptions", ["X1", "X2"])


def test_a_spreadsheet_is_read_in_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("it was opened in this process")

    content = book(["Descrição"], ["Mesa"])
    monkeypatch.setattr(openpyxl, "load_workbook", never)
    monkeypatch.setattr(zipfile, "ZipFile", never)

    assert [each.text for each in read_list(content, filename="a.xlsx").items] == ["Mesa"]


def test_what_kills_the_reader_of_a_spreadsheet_or_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(error: type[IsolatedFailure]) -> None:
        raise error("it did not come back")

    found = []
    for error in (IsolatedCrash, IsolatedTimeout, IsolatedMemory):
        monkeypatch.setattr(workbooks, "read_apart", lambda _, error=error: broken(error))
        with pytest.raises(ListRefused) as refused:
            read_list(book(["Descrição"], ["Mesa"]))
        found.append(refused.value.code)

    assert found == ["list_damaged", "list_too_large", "list_too_large"]


def test_cells_that_share_one_long_text_are_counted() -> None:
    content = book(["Descrição"], *[["a" * 32_000] for _ in range(1_200)])
    assert len(content) < 100_000

    with pytest.raises(ListRefused, match="characters") as refused:
        read_list(content)

    assert refused.value.code == "list_too_large"
