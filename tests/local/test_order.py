"""Text on a page comes in the order in which a person reads it: columns after each other, rows of a table as rows."""

from __future__ import annotations

from retoma.providers.local.readers.order import Box, lines

LEFT = [f"a linha {number} da coluna esquerda" for number in range(5)]
RIGHT = [f"e a linha {number} da coluna direita" for number in range(5)]


def column(texts: list[str], left: float, top: float = 100) -> list[Box]:
    return [
        Box(left, top + 20 * place, left + 200 - 10 * (place % 2), top + 14 + 20 * place, text)
        for place, text in enumerate(texts)
    ]


def test_columns_are_read_one_after_the_other_below_their_heading_and_above_the_foot() -> None:
    heading = Box(50, 60, 480, 80, "Um título que corre por cima das duas colunas")
    foot = Box(50, 300, 480, 314, "e um rodapé que corre por baixo delas")

    found = lines([foot, *column(RIGHT, 280), *column(LEFT, 50), heading])

    assert found == [heading.text, *LEFT, *RIGHT, foot.text]


def test_three_columns_are_read_one_after_the_other() -> None:
    third = [f"por fim a linha {number} da terceira" for number in range(5)]

    assert lines([*column(third, 510), *column(LEFT, 50), *column(RIGHT, 280)]) == [*LEFT, *RIGHT, *third]


def test_the_cells_of_a_row_stay_in_their_row() -> None:
    cells = [
        ("Cadeira giratória", "10", "R$ 4.500,00"),
        ("Mesa de reunião", "2", "R$ 320,00"),
        ("Armário", "5", "R$ 75,50"),
    ] * 2
    boxes = [
        Box(left, 100 + 30 * row, left + 8 * len(text), 114 + 30 * row, text)
        for row, texts in enumerate(cells)
        for left, text in zip((50, 300, 450), texts, strict=True)
    ]

    assert lines(boxes) == ["  ".join(row) for row in cells]


def test_a_form_with_names_and_values_side_by_side_is_read_line_by_line() -> None:
    boxes = [
        Box(left, 100 + 30 * row, left + 90, 114 + 30 * row, text)
        for row in range(6)
        for left, text in ((50, f"Nome do campo {row}:"), (300, f"valor {row}"))
    ]

    assert lines(boxes) == [f"Nome do campo {row}:  valor {row}" for row in range(6)]
