"""A table that is drawn with lines is read as a table: values under their names, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest

from retoma.bench.evaluation import labelled, samples
from retoma.providers.local.readers import pdf
from retoma.providers.local.readers.nonsense import is_nonsense
from retoma.providers.local.trail import Trail

HEAD = ("Item", "Descrição do produto", "Qtd.", "Valor (R$)")
ITEMS = [
    (str(number), f"Cadeira giratória modelo {number}", str(number * 2), f"{number * 450},00")
    for number in range(1, 13)
]
XS, TOP, HIGH = (50, 90, 330, 400, 540), 700, 20


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in this process: what is tested is the reader."""
    monkeypatch.setattr("retoma.providers.local.trail.note", lambda _: None)


def grid(rows: int, *, without: tuple[int, int] | None = None) -> bytes:
    """Lines around cells; *without* leaves out one of the vertical lines in one row: row and line."""
    lines = [b"%d %d m %d %d l S" % (XS[0], TOP - HIGH * row, XS[-1], TOP - HIGH * row) for row in range(rows + 1)]
    lines += [
        b"%d %d m %d %d l S" % (x, TOP - HIGH * row, x, TOP - HIGH * (row + 1))
        for row in range(rows)
        for line, x in enumerate(XS)
        if (row, line) != without
    ]
    return b" ".join(lines)


def filled(rows: list[tuple[str, ...]], *, by_column: bool = False) -> bytes:
    cells = [(row, column) for row in range(len(rows)) for column in range(len(rows[row]))]
    if by_column:
        cells.sort(key=lambda cell: cell[::-1])
    return b" ".join(
        samples.set_text(XS[column] + 3, TOP - HIGH * row - 14, 9, [rows[row][column]])
        for row, column in cells
        if rows[row][column]
    )


def read(stream: bytes, tmp_path: Path):
    file = tmp_path / "nota.pdf"
    file.write_bytes(samples.write_pdf([stream]))
    return pdf.read(file, Trail())


@pytest.mark.parametrize("by_column", [False, True])
def test_every_row_of_a_ruled_table_is_read_whatever_the_order_in_the_file(by_column: bool, tmp_path: Path) -> None:
    rows = [HEAD, *ITEMS]
    above, below = samples.set_text(50, 740, 11, ["NOTA FISCAL"]), samples.set_text(50, 300, 11, ["Total a pagar"])

    reading = read(b" ".join([above, grid(len(rows)), filled(rows, by_column=by_column), below]), tmp_path)

    assert [[tuple(row) for row in table.rows] for table in reading.tables] == [rows]
    assert reading.tables[0].page == 1
    assert reading.text.split("\n") == [
        "NOTA FISCAL", *(" | ".join(row) for row in rows), "Total a pagar",
    ]  # fmt: skip


def test_a_cell_without_a_line_in_it_is_one_and_what_follows_stays_under_its_name(tmp_path: Path) -> None:
    rows = [HEAD, ITEMS[0], ("", "Subtotal que ocupa duas colunas inteiras", "", "900,00")]

    reading = read(grid(3, without=(2, 2)) + b" " + filled(rows), tmp_path)

    assert list(reading.tables[0].rows)[2] == ("", "Subtotal que ocupa duas colunas inteiras", "", "900,00")


def test_a_frame_around_text_and_a_rule_under_a_title_are_no_table(tmp_path: Path) -> None:
    frame = b"40 600 500 200 re S 40 790 m 500 790 l S"

    reading = read(frame + b" " + samples.set_text(50, 780, 11, ["Título", "Um parágrafo.", "E outro."]), tmp_path)

    assert not reading.tables
    assert reading.text == "Título\nUm parágrafo.\nE outro."


def test_a_text_layer_of_a_broken_font_is_told_from_prose_names_and_figures() -> None:
    prose = labelled.book("pt")
    shifted = "".join(chr(ord(sign) + 3) if sign.isascii() and sign.isalpha() else sign for sign in prose)

    assert not is_nonsense(prose)
    assert not is_nonsense(prose.upper())
    assert not is_nonsense(labelled.book("en"))
    assert not is_nonsense("CNPJ CPF RG SSP/SP LTDA 12.345 " * 100)
    assert is_nonsense(shifted)
    assert is_nonsense("\ue001\ue002\ue003 \ue004" * 20)
