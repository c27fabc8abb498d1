"""Documents as pandoc writes them say what was written: at least 99 of 100 words, with notes, tables and chapters."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import unicodedata
from pathlib import Path

import pytest

from retoma.bench.evaluation import labelled
from retoma.providers import Extraction
from retoma.providers.local import markup
from retoma.providers.local.kinds import detect
from retoma.providers.local.readers import READERS
from retoma.providers.local.trail import Trail

pytestmark = pytest.mark.timeout(180)

SAID = f"""---
title: O diário das salinas
author: Ana Conceição
lang: pt
---

# Capítulo 1: A água {{#agua}}

{labelled.book("pt").strip()[:3000]}

## Uma lista

1. primeiro
2. segundo, com *ênfase*, **força** e `código`
    - dentro
    - ainda dentro

Termo
:   a explicação dele

> Uma citação longa, de alguém que sabia.

# Capítulo 2: As contas

Uma frase com nota[^1], com [um endereço](https://exemplo.org) e com H~2~O e m^2^.

[^1]: A nota de rodapé, que se perde com facilidade.

| Mês   | Valor (R$) | Quem    |
|-------|-----------:|---------|
| Maio  |     450,00 | João    |
| Junho |   1.234,56 | Márcia  |

: A legenda da tabela
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in this process: what is tested is the reader."""
    monkeypatch.setattr("retoma.providers.local.trail.note", lambda _: None)


def made(kind: str, folder: Path) -> tuple[Path, str]:
    """The document, and what it says. Pandoc's own readers are no measure: the one of RTF loses letters."""
    pandoc = shutil.which("pandoc")
    if pandoc is None:
        pytest.skip("no pandoc (make test installs it for root)")
    file = folder / f"livro.{kind}"
    write, tell = ("-s", "-o", str(file)), ("-t", "plain")
    for more in (write, tell):
        command = [pandoc, "-f", "markdown", *more]
        told = subprocess.run(command, input=SAID.encode(), capture_output=True, check=True, timeout=120).stdout
    return file, re.sub(r"\[\d+\]", "", words(told.decode()))


def words(text: str) -> str:
    """*text* with indices as plain figures."""
    return unicodedata.normalize("NFKC", text)


def read(kind: str, file: Path) -> Extraction:
    module, _, name = READERS[kind][0].partition(":")
    found: Extraction = getattr(importlib.import_module(module), name)(file, Trail())
    return found


@pytest.mark.parametrize("kind", ["docx", "odt", "rtf", "epub", "html"])
def test_the_words_that_pandoc_wrote_are_read(kind: str, tmp_path: Path) -> None:
    file, told = made(kind, tmp_path)

    reading = read(detect(file), file)

    assert detect(file) == kind
    assert markup.words_kept(told, words(reading.text)) >= 0.99
    assert "A nota de rodapé, que se perde com facilidade." in reading.text


def test_the_rows_of_a_table_in_rtf_are_lines_and_its_notes_stand_below(tmp_path: Path) -> None:
    lines = read("rtf", made("rtf", tmp_path)[0]).text.splitlines()

    assert "Maio | 450,00 | João" in lines
    assert "Uma frase com nota, com um endereço e com H2O e m2." in lines
    assert lines[-1].strip() == "A nota de rodapé, que se perde com facilidade."


@pytest.mark.parametrize("kind", ["docx", "odt", "epub", "html"])
def test_tables_and_chapters_of_a_foreign_document_are_known(kind: str, tmp_path: Path) -> None:
    reading = read(kind, made(kind, tmp_path)[0])

    assert ["Maio", "450,00", "João"] in [list(row) for table in reading.tables for row in table.rows]
    titles = [title for title, _ in reading.outline]
    assert [each for each in titles if each.startswith("Capítulo")] == [
        "Capítulo 1: A água",
        "Capítulo 2: As contas",
    ]
