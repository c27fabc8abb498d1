"""Lists of items in a file: which column is what, which encoding, and what is wrong with each row that is not taken.

CSV in the encodings and with the separators that spreadsheets write, and XLSX. No row is lost: it is an item, or it has
a problem with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import PurePath

from retoma.errors import ConfigurationError
from retoma.pipelines.files.tables import NoText, Row, RowUnreadable, decoded, places_of, rows_of, separator_of
from retoma.pipelines.quotes.conditions import Condition, ConditionRefused, condition_of
from retoma.pipelines.quotes.images import KeptImage

MOST_ITEMS = 10_000
MOST_BYTES = 10 << 20
LONGEST_TEXT = 4_000
LONGEST_CODE = 100
LONGEST_CELL = 100_000

_HEADER_WITHIN = 20  # rows above the table that may hold a title
_ZIP = b"PK\x03\x04"
_OLD_EXCEL = b"\xd0\xcf\x11\xe0"
_XLSX = "The spreadsheet"

NAMES: Mapping[str, tuple[str, ...]] = {
    "description": (
        "descricao", "descricao do item", "descricao do bem", "descricao do material", "descricao do produto",
        "descricao completa", "descricao detalhada", "descricao resumida", "descricao item", "desc", "item descricao",
        "especificacao", "produto", "material", "bem", "nome", "nome do item", "nome do bem", "nome do produto",
        "objeto", "denominacao", "discriminacao", "texto", "description", "item description", "name", "product", "text",
    ),
    "code": (
        "codigo", "codigo do item", "codigo do bem", "codigo item", "cod", "cod item", "tombo", "tombamento",
        "numero de tombo", "numero do patrimonio", "patrimonio", "num patrimonio", "n patrimonio", "plaqueta", "placa",
        "id", "sku", "referencia", "ref", "matricula", "code", "item code", "asset", "asset number",
    ),
    "place": ("local", "localizacao", "local do bem", "setor", "unidade administrativa", "sala", "place", "location"),
    "unit": ("unidade", "unidade de medida", "unid", "un", "um", "unit", "unit of measure"),
    "quantity": ("quantidade", "qtd", "qtde", "quant", "quantity", "qty"),
    "conservation": ("estado de conservacao", "conservacao", "ec", "condicao", "conservation", "condition"),
    "years_used": ("anos de uso", "anos uso", "periodo de uso", "tempo de uso", "idade", "pu", "years used", "age"),
    "years_left": (
        "vida util restante", "vida util futura", "vida util remanescente", "vida restante", "anos restantes", "vuf",
        "years left", "remaining life", "remaining years",
    ),
    "book_value": (
        "valor contabil", "valor contabil liquido", "valor liquido contabil", "net book value", "book value",
    ),
}  # fmt: skip
"""What people call each column, without accents and in small letters. The first that fits is taken."""
IMAGE_NAMES = {
    "image": ("imagem", "foto", "fotografia", "arquivo da imagem", "arquivo da foto", "image", "photo", "picture"),
}
"""The column of files, where the files come along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedItem:
    """An item of a list, and the *line* it stands on, counted from 1 with the header."""

    line: int
    text: str
    code: str | None = None
    place: str | None = None
    unit: str | None = None
    quantity: Decimal | None = None
    condition: Condition | None = None
    """In what condition the asset is, where its value is asked for."""
    image: str | None = None
    """The names of its photographs, as the list has them: several are parted by a vertical line."""
    kept: tuple[KeptImage, ...] = ()
    """The photographs themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A row that was not taken; *reason* never changes."""

    line: int
    reason: str
    message: str
    text: str = ""
    """What the row says, cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemList:
    """What a file holds."""

    items: list[ListedItem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    """What each part was read from, as the file calls it."""
    headers: list[str] = field(default_factory=list)
    encoding: str | None = None
    separator: str | None = None


class ListRefused(ConfigurationError):
    """A file that cannot be taken as a whole; *code* never changes. *headers* are those of its first row, where nobody
    knows yet which of them is the description.
    """

    def __init__(self, code: str, message: str, *, next: str = "", headers: Sequence[str] = ()) -> None:
        super().__init__(message, next=next)
        self.code = code
        self.headers = list(headers)


def read_list(
    content: bytes,
    *,
    filename: str = "",
    columns: Mapping[str, str] | None = None,
    most: int = MOST_ITEMS,
    images: bool = False,
) -> ItemList:
    """The items of a CSV or XLSX file. *columns* says which header is what, where people know better; one without
    a letter or digit, such as "-", says that there is none. With *images*, a column may name photographs, and a row
    with one needs no description.
    """
    names = {**NAMES, **IMAGE_NAMES} if images else NAMES
    if len(content) > MOST_BYTES:
        raise ListRefused(
            "list_too_large", f"The file has {len(content):,} bytes; at most {MOST_BYTES:,} are taken.",
            next="Send it in parts.",
        )  # fmt: skip
    if not content.strip():
        raise ListRefused("list_empty", "The file is empty.", next="Send a list with a column of descriptions.")
    if content.startswith(_ZIP):
        return _items(_xlsx_rows(content), names, columns, most=most)
    if content.startswith(_OLD_EXCEL) or PurePath(filename).suffix.lower() in {".xls", ".xlsb"}:
        raise ListRefused("list_old_format", "This is a workbook of an old format.", next="Save it as XLSX or CSV.")
    if PurePath(filename).suffix.lower() in {".xlsx", ".xlsm"}:
        raise ListRefused("list_damaged", f"{_XLSX} is damaged.", next="Open it, save it anew, and send that.")
    try:
        text, encoding = decoded(content)
    except NoText:
        raise ListRefused(
            "list_not_text", "This is neither CSV nor XLSX.", next="Save the list as CSV or XLSX."
        ) from None
    separator = separator_of(text)
    return _items(_csv_rows(text, separator), names, columns, most=most, encoding=encoding, separator=separator)


def read_text(text: str, *, most: int = MOST_ITEMS) -> ItemList:
    """Items that are parted by semicolons or lines."""
    found = ItemList()
    for line, part in enumerate(re.split("[;\n]", text), 1):
        if part.strip():
            _add(found, line, {"description": part}, most=most)
    return found


# — rows —


def _csv_rows(text: str, separator: str) -> Iterator[Row]:
    try:
        yield from rows_of(text, separator)
    except RowUnreadable as error:
        raise ListRefused("list_damaged", str(error), next="Correct the line, and send the list again.") from None


def _xlsx_rows(content: bytes) -> Iterable[Row]:
    from retoma.pipelines.quotes.workbooks import rows_of  # noqa: PLC0415 - it reads as this module says

    return rows_of(content)


# — items —


def _items(
    rows: Iterable[Row],
    names: Mapping[str, tuple[str, ...]],
    columns: Mapping[str, str] | None,
    *,
    most: int,
    encoding: str | None = None,
    separator: str | None = None,
) -> ItemList:
    above: list[Row] = []
    found: ItemList | None = None
    places: dict[str, int] = {}
    for line, row in rows:
        if found is not None:
            _take(found, line, row, places, most=most)
            continue
        above.append((line, row))
        places = places_of(row, names, columns)
        if "description" in places or "image" in places:
            told = {part: row[place].strip() for part, place in places.items()}
            headers = [each.strip() for each in row]
            found = ItemList(columns=told, headers=headers, encoding=encoding, separator=separator)
        elif len(above) >= _HEADER_WITHIN:
            break
    if found is None:
        raise _without_header(above, columns)
    return found


def _without_header(above: Sequence[Row], columns: Mapping[str, str] | None) -> ListRefused:
    first = next((row for _, row in above if any(each.strip() for each in row)), [])
    seen = ", ".join(repr(each.strip()[:40]) for each in first[:10] if each.strip()) or "nothing"
    wanted = repr(columns["description"]) if columns and "description" in columns else "one such as 'Descrição'"
    return ListRefused(
        "list_without_descriptions", f"No column holds descriptions: {wanted} was looked for, and the first row has "
        f"{seen}.", next="Name the column of descriptions, and send the list again.",
        headers=[each.strip()[:200] for each in first if each.strip()],
    )  # fmt: skip


def _take(found: ItemList, line: int, row: Sequence[str], places: Mapping[str, int], *, most: int) -> None:
    if not any(each.strip() for each in row):
        return  # nothing stands there
    given = {part: row[place] for part, place in places.items() if place < len(row)}
    _add(found, line, given, most=most, said=" | ".join(each.strip() for each in row if each.strip()))


def _add(found: ItemList, line: int, given: Mapping[str, str], *, most: int, said: str = "") -> None:
    text = " ".join(given.get("description", "").split())
    code = given.get("code", "").strip() or None
    quantity, wrong = _quantity(given.get("quantity", ""))
    image = given.get("image", "").strip() or None
    condition, unfit = _condition(given)
    problem = None
    if not text and not image:
        problem = ("description_missing", "The row has no description.")
    elif "\0" in text or (code and "\0" in code):
        problem = ("not_text", "The row holds signs that are no text.")
    elif len(text) > LONGEST_TEXT:
        problem = ("description_too_long", f"The description has {len(text):,} characters; {LONGEST_TEXT:,} are taken.")
    elif code and len(code) > LONGEST_CODE:
        problem = ("code_too_long", f"The code has {len(code):,} characters; {LONGEST_CODE} are taken.")
    elif wrong:
        problem = ("quantity_unreadable", f"{wrong[:40]!r} is no quantity.")
    elif unfit:
        problem = (unfit.code, unfit.message)
    if problem:
        found.problems.append(
            Problem(line=line, reason=problem[0], message=problem[1], text=(said or text)[:200].replace("\0", ""))
        )
        return
    if len(found.items) >= most:
        raise ListRefused(
            "list_too_long", f"The list has more than {most:,} items.", next="Send it in parts."
        )  # fmt: skip
    found.items.append(
        ListedItem(
            line=line,
            text=text,
            code=code,
            place=given.get("place", "").strip()[:200] or None,
            unit=given.get("unit", "").strip()[:50] or None,
            quantity=quantity,
            condition=condition,
            image=image,
        )
    )


def _condition(given: Mapping[str, str]) -> tuple[Condition | None, ConditionRefused | None]:
    try:
        return condition_of(given), None
    except ConditionRefused as error:
        return None, error


def _quantity(said: str) -> tuple[Decimal | None, str | None]:
    """How many, and what it said when that is no number. "1.234,5" and "1234.5" are the same."""
    said = said.strip()
    if not said:
        return None, None
    number = said.replace(" ", "")
    if "," in number:
        number = number.replace(".", "").replace(",", ".")
    try:
        found = Decimal(number)
    except InvalidOperation:
        return None, said
    ok = found.is_finite() and 0 < found < 10**9
    return (found, None) if ok else (None, said)
