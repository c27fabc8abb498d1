"""XLSX: each sheet is a page, its rows as lines and as a table; formulas by the value they had when it was saved."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import openpyxl  # type: ignore[import-untyped]  # it has no types

from retoma.providers import Extraction, Page, Table
from retoma.providers.local import limits, markup
from retoma.providers.local.archives import Archive
from retoma.providers.local.errors import DocumentDamaged, TextTooLong
from retoma.providers.local.trail import Trail


def read(file: Path, trail: Trail) -> Extraction:
    """The sheets in their order."""
    trail.at("openpyxl")
    with Archive(file) as archive:
        archive.check_markup()
    # Opened here: with a path, the library requires a name that ends in .xlsx, and stored files have other names.
    with file.open("rb") as content:
        return _read(file, content, trail)


def _read(file: Path, content: BinaryIO, trail: Trail) -> Extraction:
    try:
        book = openpyxl.load_workbook(content, read_only=True, data_only=True, keep_links=False)
    except Exception as error:  # it raises whatever its XML library and its descriptors raise
        raise _damaged(file, error) from error
    pages, tables = [], []
    try:
        for number, sheet in enumerate(book.worksheets, start=1):
            trail.at("openpyxl", number)
            sheet.reset_dimensions()  # a file may declare a million columns and have three
            rows = _rows(file, sheet.iter_rows(values_only=True))
            lines = [sheet.title, "", *map(markup.row_line, rows)] if rows else []
            pages.append(Page(number=number, text=markup.clean("\n".join(lines))))
            tables.append(Table(rows=rows, page=number))
    except TextTooLong:
        raise
    except Exception as error:  # as above
        raise _damaged(file, error) from error
    finally:
        book.close()
    markup.check_size(file.name, pages, tables)
    return Extraction(pages=tuple(pages), tables=tuple(table for table in tables if table.rows), reader="openpyxl")


def _rows(file: Path, rows: Iterable[tuple[object, ...]]) -> tuple[tuple[str, ...], ...]:
    """Rows with something in them, without the empty cells at their end."""
    found, room = [], limits.TABLE_CELLS
    for row in rows:
        cells = [_cell(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        room -= len(cells) or 1
        if room < 0:
            raise TextTooLong(f"A sheet of {file.name} has more than {limits.TABLE_CELLS:,} cells.", next="Split it.")
        if cells:
            found.append(tuple(cells))
    return tuple(found)


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case dt.datetime() if value.time() == dt.time():
            return value.date().isoformat()
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return markup.clean(str(value))


def _damaged(file: Path, error: Exception) -> DocumentDamaged:
    why = " ".join(str(error).split())[:200] or type(error).__name__
    return DocumentDamaged(f"{file.name} is a damaged workbook: {why}.", next="Save it anew.", reader="openpyxl")
