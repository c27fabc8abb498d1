"""Footnotes of a PDF stand apart from its text: no sentence that goes on over the page or the column is cut by them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from retoma.bench.evaluation import samples
from retoma.pipelines.books.text import lines as book_lines
from retoma.providers import Extraction
from retoma.providers.local.readers import pdf
from retoma.providers.local.trail import Trail

FIRST = (
    "O sal vinha do mar e secava ao sol durante semanas.",
    "As mulheres levavam os cestos até o cais.{1} Depois o",
    "barco partia com a carga, e ninguém sabia quando a",
)
SECOND = ("água subiria outra vez sobre os tanques da salina.{2}", "Assim passou o verão inteiro.")
GOES_ON = "ninguém sabia quando a água subiria outra vez"
NOTES = ("1 Ver Silva, História do sal, p. 34. Outra edição", "traz mais um capítulo sobre as salinas.")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in this process: what is tested is the reader."""
    monkeypatch.setattr("retoma.providers.local.trail.note", lambda _: None)


def body(lines: Sequence[str], *, x: int = 56, size: int = 11, raised: str = "sup") -> bytes:
    """Lines of text; what is in braces is the mark of a note, raised and small."""
    parts = []
    for row, line in enumerate(lines):
        y = 780 - 14 * row
        begun, _, mark = line.partition("{")
        mark, _, rest = mark.partition("}")
        parts.append(samples.set_text(x, y, size, [begun]))
        width = 5.1 * len(begun)  # Helvetica of 11 points, in the mean; the exact place does not matter
        if mark:
            high, small = {"sup": (4, 7), "small": (0, 6), "plain": (0, size)}[raised]
            parts.append(samples.set_text(x + width, y + high, small, [mark]))
            parts.append(samples.set_text(x + width + 4, y, size, [rest]))
    return b" ".join(parts)


def foot(lines: Sequence[str], *, x: int = 56, y: int = 120, size: float = 8) -> bytes:
    return b"%d %d m %d %d l S " % (x, y + 12, x + 120, y + 12) + samples.set_text(x, y, size, lines)


def read(folder: Path, *pages: bytes) -> Extraction:
    file = folder / "livro.pdf"
    file.write_bytes(samples.write_pdf(pages))
    return pdf.read(file, Trail())


def flat(reading: Extraction) -> str:
    return " ".join(" ".join(page.text for page in reading.pages).split())


def number(told: str) -> bytes:
    return samples.set_text(300, 40, 11, [told])


def test_a_sentence_goes_on_over_the_page_and_the_note_stands_before_it(tmp_path: Path) -> None:
    reading = read(tmp_path, body(FIRST) + b" " + foot(NOTES), body(SECOND) + b" " + foot(["2 Idem, p. 36."]))

    assert GOES_ON in flat(reading)
    assert "cais. 1 [1 Ver Silva," in flat(reading)
    assert "sobre as salinas.] Depois o barco" in flat(reading)
    assert reading.pages[1].text.endswith("verão inteiro.\n[2 Idem, p. 36.]")


def test_no_word_is_lost_and_each_note_stays_on_its_page(tmp_path: Path) -> None:
    pages = (body(FIRST) + b" " + foot(NOTES), body(SECOND) + b" " + foot(["2 Idem, p. 36."]))

    reading = read(tmp_path, *pages)

    told = [*FIRST, *NOTES, *SECOND, "2 Idem, p. 36."]
    want = Counter(re.findall(r"\w+", " ".join(each.replace("{", "").replace("}", "") for each in told)))
    assert Counter(re.findall(r"\w+", flat(reading))) == want
    assert "História do sal" in reading.pages[0].text


@pytest.mark.parametrize("raised", ["sup", "small"])
def test_a_page_number_below_the_notes_stays_the_last_line(raised: str, tmp_path: Path) -> None:
    page = body(FIRST, raised=raised) + b" " + foot(NOTES) + b" " + number("7")

    reading = read(tmp_path, page, body(SECOND))

    assert reading.pages[0].text.splitlines()[-1] == "7"
    assert reading.pages[0].text.splitlines()[-2].endswith("sabia quando a")


def test_a_word_that_is_divided_before_the_notes_is_whole_in_a_book(tmp_path: Path) -> None:
    first = (*FIRST[:2], "barco partia com a carga, e ninguém sabia da consti-")

    reading = read(tmp_path, body(first) + b" " + foot(NOTES), body(["tuição dos tanques da salina."]))

    assert reading.pages[0].text.endswith("sabia da consti-")
    told = " ".join(" ".join(line.text for line in book_lines.read(reading).all).split())
    assert "ninguém sabia da constituição dos tanques" in told


def test_a_note_that_goes_on_over_the_page_is_apart_on_both(tmp_path: Path) -> None:
    note = ["1 Ver Silva, que conta em sua História do sal como os", "tanques da salina velha foram abertos e"]
    second = (SECOND[0].replace("{2}", ""), "Assim passou o verão inteiro, e quando")
    third = ["veio o outono ninguém mais falou disso."]

    reading = read(
        tmp_path, body(FIRST) + b" " + foot(note), body(second) + b" " + foot(["fechados no mesmo ano."]), body(third)
    )

    assert GOES_ON in flat(reading)
    assert "e quando veio o outono" in flat(reading)
    assert "[fechados no mesmo ano.]" in reading.pages[1].text


def test_the_notes_of_a_column_do_not_cut_what_goes_on_in_the_next(tmp_path: Path) -> None:
    left = body(FIRST) + b" " + foot(NOTES)
    right = body([SECOND[0], SECOND[1]], x=330) + b" " + foot(["2 Idem, p. 36."], x=330)

    reading = read(tmp_path, left + b" " + right)

    assert GOES_ON in flat(reading)
    assert flat(reading).endswith("[1 " + " ".join(NOTES)[2:] + "] [2 Idem, p. 36.]")


def test_asterisks_and_marks_in_brackets_call_notes_too(tmp_path: Path) -> None:
    starred = (FIRST[0], FIRST[1].replace("{1}", "*"), FIRST[2])
    bracketed = (FIRST[0], FIRST[1].replace("{1}", " [1]"), FIRST[2])

    for lines, note in ((starred, ["* Tradução nossa."]), (bracketed, ["[1] Tradução nossa."])):
        reading = read(tmp_path, body(lines) + b" " + foot(note), body(SECOND))

        assert GOES_ON in flat(reading)


@pytest.mark.parametrize(
    ("lines", "small"),
    [
        (FIRST, ["A tabela vem do arquivo da cidade e foi", "conferida em maio."]),
        ((FIRST[0], FIRST[1].replace("{1}", ""), FIRST[2]), ["1 Cadeira giratória", "2 Mesa de reunião"]),
    ],
    ids=["small letters without a mark", "small rows that nothing calls"],
)
def test_what_is_no_note_stays_where_it_is(lines: Sequence[str], small: list[str], tmp_path: Path) -> None:
    reading = read(tmp_path, body(lines) + b" " + foot(small), body(SECOND))

    assert reading.pages[0].text.endswith("\n".join(small))


def test_rows_as_large_as_the_text_and_small_lines_above_it_stay(tmp_path: Path) -> None:
    rows = foot(["1 Cadeira giratória", "2 Mesa de reunião"], size=11)
    above = samples.set_text(56, 800, 8, ["1 Ver abaixo o que se diz do sal"])

    for page in (body(FIRST) + b" " + rows, above + b" " + body(FIRST)):
        assert "[" not in read(tmp_path, page, body(SECOND)).text
