"""Columns of a PDF come one after the other, whatever the order in which the file sets their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from retoma.bench.evaluation import labelled, samples
from retoma.providers.local.readers import pdf
from retoma.providers.local.trail import Trail

PROSE = " ".join(labelled.book("pt").split())[500:2600]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in this process: what is tested is the reader."""
    monkeypatch.setattr("retoma.providers.local.trail.note", lambda _: None)


@pytest.mark.parametrize("mixed", [True, False])
def test_columns_that_the_file_sets_across_the_page_are_read_one_after_the_other(mixed: bool, tmp_path: Path) -> None:
    lines = samples.wrapped(PROSE, 42)
    half = len(lines) // 2
    left, right = lines[:half], lines[half : 2 * half]
    places = [(x, row, side[row]) for row in range(half) for x, side in ((56, left), (320, right))]
    if not mixed:
        places.sort(key=lambda place: place[0])
    stream = b" ".join(samples.set_text(x, 740 - 14 * row, 10, [line]) for x, row, line in places)
    file = tmp_path / "jornal.pdf"
    file.write_bytes(samples.write_pdf([samples.set_text(56, 780, 16, ["O jornal das salinas"]) + b" " + stream]))

    reading = pdf.read(file, Trail())

    assert reading.text.split() == " ".join(["O jornal das salinas", *left, *right]).split()


def test_an_account_without_lines_stays_in_its_rows(tmp_path: Path) -> None:
    rows = [(f"Conta de luz do mês {number}", f"{number * 37},00") for number in range(1, 13)]
    stream = b" ".join(
        samples.set_text(x, 740 - 14 * place, 10, [cell])
        for place, row in enumerate(rows)
        for x, cell in zip((56, 320), row, strict=True)
    )
    file = tmp_path / "conta.pdf"
    file.write_bytes(samples.write_pdf([stream]))

    reading = pdf.read(file, Trail())

    assert reading.text.split() == " ".join(cell for row in rows for cell in row).split()
