"""What a document says under a name: what its reader found, lines such as "Valor: R$ 10,00", tables of two columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from retoma.isolate import isolated
from retoma.pipelines.documents.chunking import SECONDS
from retoma.providers import Extraction, Field
from retoma.providers.local.limits import READ_MEGABYTES

MOST = 200
CERTAIN_OF_TABLE = 0.75
CERTAIN_OF_LINE = 0.6
LESS_BY_OCR = 0.8
"""Letters that were read from a picture may be wrong."""

# What parts words is never part of one, so that no line can be read in many ways: somebody would send that line.
_LINE = re.compile(
    r"^[ \t*•–-]*(?P<name>[A-ZÀ-Ý][^\W_]*(?:[ ./()°&'-]{1,3}[^\W_]+){0,6}[ )°.]{0,2})"
    r"[ \t]*:[ \t]++(?P<value>\S.*)$",
    re.MULTILINE,
)
_LONGEST_NAME = 60
_LONGEST_VALUE = 500
_COLUMNS = 2


@isolated(seconds=SECONDS, megabytes=READ_MEGABYTES)
def find_fields(extraction: Extraction) -> list[Field]:
    """At most 200 fields, in the order of their pages; what the reader itself found wins over what we make out."""
    found: dict[tuple[str, str], Field] = {}
    told = [replace(field, name=field.name.strip().rstrip(": ")) for field in extraction.fields if field.value.strip()]
    own = {field.name.casefold() for field in told}
    for field in told:
        found.setdefault((field.name.casefold(), field.value), field)
    for field in (*_of_tables(extraction), *_of_lines(extraction)):
        if field.name.casefold() not in own:
            found.setdefault((field.name.casefold(), field.value), field)
    return list(found.values())[:MOST]


def _of_tables(extraction: Extraction) -> Iterator[Field]:
    scanned = {page.number for page in extraction.pages if page.source == "ocr"}
    for table in extraction.tables:
        if not table.rows or {len(row) for row in table.rows} != {_COLUMNS}:
            continue
        for name, value in ((" ".join(cell.split()) for cell in row) for row in table.rows):
            name = name.rstrip(": ")  # noqa: PLW2901 - the colon is a sign of a name, not part of it
            if _is_name(name) and value:
                sure = CERTAIN_OF_TABLE * (LESS_BY_OCR if table.page in scanned else 1)
                yield Field(name=name, value=value[:_LONGEST_VALUE], confidence=round(sure, 3), page=table.page)


def _of_lines(extraction: Extraction) -> Iterator[Field]:
    for page in extraction.pages:
        sure = CERTAIN_OF_LINE * (LESS_BY_OCR if page.source == "ocr" else 1)
        for line in _LINE.finditer(page.text):
            name, value = " ".join(line["name"].split()), " ".join(line["value"].split())
            if _is_name(name):
                yield Field(name=name, value=value[:_LONGEST_VALUE], confidence=round(sure, 3), page=page.number)


def _is_name(name: str) -> bool:
    """Short, and with letters in it: a table of figures has no names."""
    return 1 < len(name) <= _LONGEST_NAME and sum(map(str.isalpha, name)) * 2 > len(name)
