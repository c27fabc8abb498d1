"""XLSX: each sheet is a page, its rows as lines and as a table; formulas by the value they had when it was saved."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import openpyxl  # type: ignore[import-untyped]  # it has no types

from retoma.providers import Extraction, Page, Table
from retoma.providers.local import limits, markup
from retoma.providers.local.archives import Archive
from retoma.providers.local.errors import DocumentDamaged, TextTooLong
from retoma.providers.local.trail import Trail

_KNOWN = 20_000


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
    pages, tables, room = [], [], _Room(file.name)
    try:
        for number, sheet in enumerate(book.worksheets, start=1):
            trail.at("openpyxl", number)
            sheet.reset_dimensions()  # a file may declare a million columns and have three
            rows = _rows(room, sheet.iter_rows(values_only=True))
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


class _Room:
    """What a workbook may still fill, counted over all its sheets while they are read row by row."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._cells, self._letters = limits.TABLE_CELLS, limits.TEXT
        self._known: dict[str, str] = {}

    def take(self, cells: Sequence[str]) -> tuple[str, ...]:
        """*cells*, if they still fit. A text that comes again, as the name of a town does, is kept once."""
        self._cells -= len(cells) or 1
        self._letters -= sum(map(len, cells))
        if self._cells < 0:
            raise TextTooLong(f"{self._name} has more than {limits.TABLE_CELLS:,} cells.", next="Split the workbook.")
        if self._letters < 0:
            raise TextTooLong(f"{self._name} has more than {limits.TEXT:,} characters.", next="Split the workbook.")
        if len(self._known) > _KNOWN:
            self._known.clear()
        return tuple(self._known.setdefault(cell, cell) for cell in cells)


def _rows(room: _Room, rows: Iterable[tuple[object, ...]]) -> tuple[tuple[str, ...], ...]:
    """Rows with something in them, without the empty cells at their end."""
    found = []
    for row in rows:
        cells = [_cell(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        taken = room.take(cells)
        if taken:
            found.append(taken)
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
