"""What a document says under a name: what its reader found, numbers whose check digits are right, dates and sums, lines
such as "Valor: R$ 10,00", tables of two columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from retoma.isolate import isolated
from retoma.pipelines.documents.chunking import SECONDS
from retoma.providers import Extraction, Field
from retoma.providers.local import papers
from retoma.providers.local.limits import READ_MEGABYTES

MOST = 200
CERTAIN_OF_CHECKED = 1.0
CERTAIN_OF_EXACT = 0.9
"""A date and a sum are what they say; nothing but their form shows that they were read right."""

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
_MOST_OF_A_KIND = 20
_CHECKED = frozenset({"cnpj", "cpf", "process", "access_key"})


@isolated(seconds=SECONDS, megabytes=READ_MEGABYTES)
def find_fields(extraction: Extraction) -> list[Field]:
    """At most 200 fields, in the order of their pages; what the reader itself found wins over what we make out."""
    found: dict[tuple[str, str], Field] = {}
    told = [replace(field, name=field.name.strip().rstrip(": ")) for field in extraction.fields if field.value.strip()]
    own = {field.name.casefold() for field in told}
    for field in told:
        found.setdefault((field.name.casefold(), field.value), field)
    named = [_verified(each) for each in (*_of_tables(extraction), *_of_cells(extraction), *_of_lines(extraction))]
    for field in (*_exact(extraction, [*told, *named]), *(each for each in named if each.name.casefold() not in own)):
        found.setdefault((field.name.casefold(), field.value), field)
    return list(found.values())[:MOST]


def _verified(field: Field) -> Field:
    """*field*, certain when its value has check digits and they are right: then every one of its digits is."""
    exact = papers.value_of(field.value, field.name)
    return replace(field, confidence=CERTAIN_OF_CHECKED) if exact is not None and exact.kind in _CHECKED else field


def _exact(extraction: Extraction, named: Sequence[Field]) -> Iterator[Field]:
    """Each exact value once that stands under no name of its own."""
    known = {(value.kind, value.exact) for field in named for value in papers.find(f"{field.name}: {field.value}")}
    count: Counter[str] = Counter()
    for page in extraction.pages:
        for value in papers.find(page.text):
            if (value.kind, value.exact) in known or count[value.kind] == _MOST_OF_A_KIND:
                continue
            known.add((value.kind, value.exact))
            count[value.kind] += 1
            checked = value.kind in _CHECKED
            sure = CERTAIN_OF_CHECKED if checked else CERTAIN_OF_EXACT * (LESS_BY_OCR if page.source == "ocr" else 1)
            shown = value.written if value.kind in {"date", "money"} else value.exact
            yield Field(name=papers.NAMES[value.kind], value=shown, confidence=round(sure, 3), page=page.number)


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


def _of_cells(extraction: Extraction) -> Iterator[Field]:
    """A cell with a name above its value, as the boxes of an invoice have."""
    scanned = {page.number for page in extraction.pages if page.source == "ocr"}
    for table in extraction.tables:
        for cell in (cell for row in table.rows for cell in row):
            name, _, value = cell.partition("\n")
            name, value = name.rstrip(": "), " ".join(value.split())
            if value and name.isupper() and _is_name(name):
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
