"""Tables of text that people send: which encoding, which separator, and which column is what.

Spreadsheets write CSV in several encodings and with several signs between columns, and people call a column as they
like.
"""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from retoma.errors import ConfigurationError

Row = tuple[int, list[str]]
"""The line on which a row begins, counted from 1, and its cells."""
Names = Mapping[str, Sequence[str]]
"""What people call each column, as ``plain`` writes it; the first name that fits is taken."""

_MARKS = (b"\xff\xfe", b"\xfe\xff")
_ENCODINGS = ("utf-8-sig", "cp1252")
_SEPARATORS = (";", ",", "\t", "|")
_LOOKED_AT = 40
"""Lines by which the separator is told."""
_LONGEST_NAME = 200


class NoText(ConfigurationError):
    """The content is none of letters."""


class RowUnreadable(ConfigurationError):
    """A row cannot be read; *line* is where, and *cause* why."""

    def __init__(self, line: int, cause: str) -> None:
        super().__init__(
            f"Line {line} cannot be read ({cause}): a quotation mark may be open.", next="Correct the line."
        )
        self.line, self.cause = line, cause


def decoded(content: bytes) -> tuple[str, str]:
    """The text of a file and the name of its encoding."""
    for encoding in ("utf-16",) if content.startswith(_MARKS) else _ENCODINGS:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text, encoding
    # Every byte is a letter in Latin-1: a file with others than the usual ones is none of letters.
    if b"\0" in content:
        raise NoText("This file is no text.", next="Save the table as CSV, and send that.")
    return content.decode("latin-1"), "latin-1"


def separator_of(text: str) -> str:
    """The sign that parts columns: the one that gives most lines the same number of columns, more than one."""
    lines = text.split("\n", _LOOKED_AT)[:_LOOKED_AT]

    def fit(sign: str) -> tuple[int, int]:
        try:
            rows = csv.reader(io.StringIO("\n".join(lines), newline=""), delimiter=sign)
            counts = [len(row) for row in rows if any(row)]
        except csv.Error:
            return 0, 0
        usual = max(set(counts), key=counts.count, default=1)
        return (counts.count(usual), usual) if usual > 1 else (0, 0)

    best = max(_SEPARATORS, key=fit)
    return best if fit(best) > (0, 0) else ";"


def rows_of(text: str, separator: str) -> Iterator[Row]:
    """The rows of a text, each with the line it begins on; a quoted cell may hold lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    line = 1
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise RowUnreadable(reader.line_num, str(error)) from None
        yield line, row
        line = reader.line_num + 1


def places_of(header: Sequence[str], names: Names, columns: Mapping[str, str] | None = None) -> dict[str, int]:
    """Where each column stands in a row of headers. *columns* says which header is what, where people know better."""
    headers = [plain(each[:_LONGEST_NAME]) for each in header]
    places: dict[str, int] = {}
    for part, usual in names.items():
        wanted = (plain(columns[part]),) if columns and part in columns else usual
        place = next((headers.index(name) for name in wanted if name and name in headers), None)
        if place is not None and place not in places.values():
            places[part] = place
    return places


def plain(text: str) -> str:
    """*text* in small letters without accents, marks and double blanks, for comparison."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    kept = "".join(letter if letter.isalnum() else " " for letter in letters if not unicodedata.combining(letter))
    return " ".join(kept.split())
