"""Foreign text in a terminal, in a spreadsheet, in a prompt."""

from __future__ import annotations

import json
import unicodedata

import pytest

from retoma.values.escaping import cell, spoken, visible, visible_json

STEERING = [
    *(chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"),
    *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u2028\u2029",
]


@pytest.mark.parametrize("sign", STEERING, ids=lambda sign: f"U+{ord(sign):04X}")
def test_what_steers_a_terminal_is_shown(sign: str) -> None:
    shown = visible(f"a{sign}b")

    assert sign not in shown
    assert shown == f"a\\{'x' if ord(sign) < 256 else 'u'}{ord(sign):0{2 if ord(sign) < 256 else 4}x}b"


@pytest.mark.parametrize("sign", STEERING, ids=lambda sign: f"U+{ord(sign):04X}")
def test_json_says_the_same_and_steers_nothing(sign: str) -> None:
    written = visible_json(json.dumps({"á": f"a{sign}b"}, ensure_ascii=False))

    assert sign not in written
    assert json.loads(written) == {"á": f"a{sign}b"}


def test_ordinary_text_stays_as_it_is() -> None:
    text = "Ação nº 1 – “citação”\n\tlinha 🇧🇷 中文"

    assert (visible(text), visible_json(json.dumps(text, ensure_ascii=False))) == (
        text,
        json.dumps(text, ensure_ascii=False),
    )


@pytest.mark.parametrize(
    "text",
    [
        "=1+1", "+cmd", "-2", "@SUM(1)", "\t=1", "\r=1", "\n=1", " =1+1", "\u00a0=1", "＝1+1", "﹢1", "－2", "＠a",
        "\u200b=1", "\ufeff=1", "\x00=1", "\x1b=1", "\u202e=1", " \t \u3000＝1", "=cmd|'/C calc'!A0",
    ],
)  # fmt: skip
def test_a_text_that_a_spreadsheet_would_compute_is_quoted(text: str) -> None:
    made = cell(text)

    assert made.startswith("'")
    assert unicodedata.normalize("NFKC", made)[0] == "'"


@pytest.mark.parametrize("value", ["ata.txt", "a=b", "1+1", "(=1)", 7, -7, 1.5, True, "'quoted"])
def test_what_is_no_formula_is_written_as_it_is(value: object) -> None:
    assert cell(value) == value


def test_nothing_is_an_empty_cell() -> None:
    assert cell(None) == ""


def test_what_nobody_sees_is_left_out_and_counted() -> None:
    hidden = "\u200b\u200d\u2060\ufeff\u00ad\u202e\u2066\u061c\ufe0f" + "".join(
        chr(0xE0000 + ord(each)) for each in "go"
    )

    assert spoken(f"Ação{hidden} de cobrança") == ("Ação de cobrança", 11)
    assert spoken("Ação de cobrança\n\tfim") == ("Ação de cobrança\n\tfim", 0)
