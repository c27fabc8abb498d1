"""An empty list to fill in: the columns that an upload recognises, in the language of whoever asks."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

HEADERS: Mapping[str, Mapping[str, str]] = {
    "pt": {
        "code": "Código",
        "description": "Descrição",
        "place": "Local",
        "unit": "Unidade",
        "quantity": "Quantidade",
        "conservation": "Estado de conservação",
        "years_used": "Anos de uso",
        "years_left": "Vida útil restante",
        "book_value": "Valor contábil",
    },
    "en": {
        "code": "Code",
        "description": "Description",
        "place": "Place",
        "unit": "Unit",
        "quantity": "Quantity",
        "conservation": "Condition",
        "years_used": "Years used",
        "years_left": "Years left",
        "book_value": "Book value",
    },
}
"""What each column is called; only the description must be filled in."""
NAMES = {"pt": "modelo-de-lista.csv", "en": "list-template.csv"}


def template(language: str) -> bytes:
    """The file: its header and no row, because an example that is forgotten in it would be paid for. With the mark at
    its start and with semicolons, a Brazilian spreadsheet opens it as columns with their accents.
    """
    text = io.StringIO()
    csv.writer(text, delimiter=";").writerow(HEADERS[language].values())
    return b"\xef\xbb\xbf" + text.getvalue().encode()
