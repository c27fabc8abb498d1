"""Plain text and tables of plain text."""

from __future__ import annotations

import csv
from pathlib import Path

from retoma.providers import Extraction, Page, Table
from retoma.providers.local import kinds, limits, markup
from retoma.providers.local.errors import DocumentDamaged, TextTooLong
from retoma.providers.local.trail import Trail


def read_txt(file: Path, trail: Trail) -> Extraction:
    """The text; a form feed begins a new page."""
    trail.at("text")
    pages = pages_of(text_of(file))
    markup.check_size(file.name, pages)
    return Extraction(pages=pages, reader="text")


def read_csv(file: Path, trail: Trail) -> Extraction:
    """The text as it stands, and its rows as a table."""
    trail.at("csv")
    text = text_of(file)
    csv.field_size_limit(limits.TEXT)
    try:
        rows = tuple(tuple(row) for row in csv.reader(text.splitlines(keepends=True), delimiter=sign_of(text)) if row)
    except csv.Error as error:
        raise DocumentDamaged(
            f"{file.name} is a damaged table: {error}.", next="Save it anew.", reader="csv"
        ) from error
    pages, tables = pages_of(text), (Table(rows=rows, page=1),)
    markup.check_size(file.name, pages, tables)
    return Extraction(pages=pages, tables=tables, reader="csv")


def sign_of(text: str) -> str:
    """The column separator; a comma when there is none."""
    return kinds.delimiter(text) or ","


def text_of(file: Path) -> str:
    """The decoded content of *file*."""
    if (size := file.stat().st_size) > limits.TEXT * 4:
        raise TextTooLong(f"{file.name} has {size:,} bytes of text.", next="Split it.")
    text = kinds.decode(file.read_bytes())
    if text is None:
        raise DocumentDamaged(
            f"{file.name} begins as text and continues as something else.",
            next="Find another copy of it.",
            reader="text",
        )
    return text


def pages_of(text: str) -> tuple[Page, ...]:
    """The pages of *text*, parted by form feeds."""
    return tuple(Page(number=number, text=markup.clean(each)) for number, each in enumerate(text.split("\f"), start=1))
