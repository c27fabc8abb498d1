"""The rows of a spreadsheet, read in a child process: the file comes from anybody, and a ZIP of XML can be hostile."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

from retoma.errors import ConfigurationError, IsolatedCrash, IsolatedFailure
from retoma.isolate import isolated
from retoma.pipelines.files.tables import Row
from retoma.pipelines.quotes.lists import LONGEST_CELL, ListRefused

_XLSX = "The spreadsheet"
_ANEW = "Open it, save it anew, and send that."
_UNPACKED = 200 << 20
_MOST_PARTS = 5_000
_MOST_COLUMNS = 200
_MOST_TEXT = 32 << 20
"""Characters of all cells together. Cells can share one text, so that a small file tells far more than it has."""
_SECONDS = 60.0
_MEGABYTES = 768


def rows_of(content: bytes) -> list[Row]:
    """Every row with its line, as text; those without any are left out."""
    try:
        return read_apart(content)
    except IsolatedCrash as error:
        raise ListRefused("list_damaged", f"{_XLSX} is damaged.", next=_ANEW) from error
    except IsolatedFailure as error:
        raise ListRefused(
            "list_too_large", f"{_XLSX} takes more time or memory than a list may.", next="Send it in parts."
        ) from error


@isolated(seconds=_SECONDS, megabytes=_MEGABYTES)
def read_apart(content: bytes) -> list[Row]:
    """What rows_of says, from a child process."""
    _check_package(content)
    try:
        from openpyxl import load_workbook  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra, and slow to load
    except ModuleNotFoundError:
        raise ConfigurationError(
            "openpyxl is not installed, and spreadsheets need it.", next="pip install 'retoma[local]', or send CSV."
        ) from None
    try:
        book = load_workbook(io.BytesIO(content), read_only=True, data_only=True, keep_links=False)
        return list(_told(book.active or book.worksheets[0]))
    except (ListRefused, MemoryError):
        raise
    except Exception as error:
        # The reader raises whatever it meets: a missing part, a number that is none, XML that ends too early.
        raise ListRefused("list_damaged", f"{_XLSX} is damaged ({type(error).__name__}).", next=_ANEW) from error


def _told(sheet: Any) -> Iterator[Row]:
    left = _MOST_TEXT
    for line, row in enumerate(sheet.iter_rows(values_only=True, max_col=_MOST_COLUMNS), 1):
        cells = [_shown(each)[: LONGEST_CELL + 1] for each in row]
        left -= sum(map(len, cells))
        if left < 0:
            raise ListRefused(
                "list_too_large", f"{_XLSX} says more than {_MOST_TEXT:,} characters.", next="Send it in parts."
            )
        if any(each.strip() for each in cells):
            yield line, cells


def _check_package(content: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as package:
            parts = package.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        raise ListRefused("list_damaged", f"{_XLSX} is damaged.", next=_ANEW) from None
    names = {each.filename.lower() for each in parts}
    if any(name.endswith("vbaproject.bin") for name in names):
        raise ListRefused("list_has_macros", f"{_XLSX} has macros.", next="Save it as XLSX without macros.")
    if "[content_types].xml" not in names or not any(name.startswith("xl/") for name in names):
        raise ListRefused("list_not_text", "This is a ZIP and no spreadsheet.", next="Save the list as CSV or XLSX.")
    if sum(each.file_size for each in parts) > _UNPACKED or len(parts) > _MOST_PARTS:
        raise ListRefused(
            "list_too_large", f"{_XLSX} unpacks to more than {_UNPACKED:,} bytes.", next="Send it in parts."
        )


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # a code that the spreadsheet took for a number
    return str(value)
