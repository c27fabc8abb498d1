"""What people say of documents in a CSV file: which column is what, which encoding, and what is wrong with each row.

No row is lost: it names a document and a label, or it has a problem with its line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from retoma.errors import ConfigurationError
from retoma.pipelines.files.tables import decoded, places_of, rows_of, separator_of

MOST_BYTES = 10 << 20
MOST_ROWS = 20_000
LONGEST_NAME = 1_000

NAMES: Mapping[str, tuple[str, ...]] = {
    "document": (
        "documento", "arquivo", "nome do arquivo", "nome arquivo", "codigo", "codigo documento", "codigo do documento",
        "caminho", "document", "file", "filename", "file name", "path", "code", "name", "nome",
    ),
    "label": (
        "categoria", "rotulo", "classe", "tipo", "tipo de documento", "tipo documento", "especie", "label", "category",
        "class", "kind", "type",
    ),
    "part": ("subcategoria", "subtipo", "subcategory"),
}  # fmt: skip
"""What people call each column, without accents and in small letters. The first that fits is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one row says; *line* counts from 1 with the header."""

    line: int
    document: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A row that teaches nothing, and why; *reason* never changes."""

    line: int
    reason: str
    message: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What a file says."""

    said: list[Said] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    encoding: str = "utf-8"


def read_lesson(content: bytes) -> Lesson:
    """The rows of a CSV file with a column of documents and one of labels."""
    if len(content) > MOST_BYTES:
        raise ConfigurationError(
            f"The file has {len(content):,} bytes; at most {MOST_BYTES:,} are taken.", next="Send it in parts."
        )
    if content.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"%PDF")):
        raise ConfigurationError("This file is no CSV.", next="Save the table as CSV, and send that.")
    text, encoding = decoded(content)
    rows = [row for row in rows_of(text, separator_of(text)) if any(cell.strip() for cell in row[1])]
    if not rows:
        raise ConfigurationError("The file is empty.", next=_EXAMPLE)
    (_, header), *body = rows
    places = _places(header)
    if len(body) > MOST_ROWS:
        raise ConfigurationError(
            f"The file has {len(body):,} rows; at most {MOST_ROWS:,} are taken.", next="Send it in parts."
        )
    columns = {what: header[place].strip() for what, place in places.items()}
    lesson = Lesson(columns=columns, encoding=encoding.removesuffix("-sig"))
    for line, cells in body:
        found = _read(line, cells, places)
        (lesson.said if isinstance(found, Said) else lesson.problems).append(found)  # type: ignore[arg-type]
    return lesson


_EXAMPLE = "The first row names the columns: 'file,label', then a row for each document."


def _places(header: Sequence[str]) -> dict[str, int]:
    """Where each column is; without documents and labels nobody can be taught."""
    places = places_of(header, NAMES)
    missing = [what for what in ("document", "label") if what not in places]
    if missing:
        shown = ", ".join(cell.strip()[:40] for cell in header[:8])
        raise ConfigurationError(
            f"No column names the {' and the '.join(missing)}: the first row says {shown!r}.", next=_EXAMPLE
        )
    return places


def _read(line: int, cells: Sequence[str], places: Mapping[str, int]) -> Said | Problem:
    def cell(what: str) -> str:
        place = places.get(what, len(cells))
        return cells[place].strip() if place < len(cells) else ""

    text = " | ".join(each.strip() for each in cells)[:200]
    document, label, part = cell("document"), cell("label"), cell("part")
    if not document:
        return Problem(line=line, reason="document_missing", message="The row names no document.", text=text)
    if not label:
        return Problem(line=line, reason="label_missing", message="The row names no label.", text=text)
    if len(document) > LONGEST_NAME or len(label) > LONGEST_NAME:
        return Problem(line=line, reason="too_long", message="A name in this row is too long to be one.", text=text)
    return Said(line=line, document=document, label=f"{label} > {part}" if part else label)
