"""The results of a batch as CSV: one line for each row of the list, also for those that were not taken."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from retoma.model.ids import BatchId
from retoma.pipelines.quotes.model import BatchItem, Quote
from retoma.values.escaping import cell

if TYPE_CHECKING:
    from retoma.pipelines.quotes.library import Quotes

CSV = "text/csv; charset=utf-8"
_PAGE = 500

COLUMNS: dict[str, Callable[[Quote], Any]] = {
    "Cotação": lambda each: each.id,
    "Código": lambda each: each.codigo_item,
    "Descrição": lambda each: each.input_text,
    "Local": lambda each: each.local,
    "Unidade": lambda each: each.unit,
    "Quantidade": lambda each: each.quantity,
    "Situação": lambda each: str(each.status),
    "Valor médio (R$)": lambda each: _money(each.valor_medio),
    "Valor mínimo (R$)": lambda each: _money(each.valor_minimo),
    "Valor máximo (R$)": lambda each: _money(each.valor_maximo),
    "Variação (%)": lambda each: _money(each.variacao_percentual),
    "Busca": lambda each: each.search_query_final,
    "Pesquisador": lambda each: each.pesquisador,
    "Tentativa": lambda each: each.attempt_number,
    "Concluída em": lambda each: each.completed_at.isoformat() if each.completed_at else None,
    "Erro": lambda each: each.error_message,
}
_NOT_TAKEN = "NÃO ACEITA"


async def results(library: Quotes, id: BatchId) -> AsyncIterator[bytes]:
    """The pieces of the file. With a mark at its start, spreadsheets read the accents as they are."""
    yield "\ufeff".encode() + _lines([["Linha", *COLUMNS]])
    after = 0
    while page := await library.items(id, after=after, limit=_PAGE):
        known = await _quotes(library, id, [each.quote_id for each in page if each.quote_id is not None])
        yield _lines([_row(each, known) for each in page])
        after = page[-1].line


async def _quotes(library: Quotes, id: BatchId, ids: list[int]) -> dict[int, Quote]:
    """These quotes of the batch as they stand, without their long answers. Their ids rise with their lines."""
    page = await library.quotes(batch_id=id, before=max(ids) + 1, limit=len(ids)) if ids else []
    return {each.id: each for each in page}


def _row(item: BatchItem, known: dict[int, Quote]) -> list[Any]:
    if item.quote_id is not None:
        quote = known[item.quote_id]
        return [item.line, *(cell(read(quote)) for read in COLUMNS.values())]
    told = {"Descrição": item.said, "Situação": _NOT_TAKEN, "Erro": f"{item.problem}: {item.message}"}
    return [item.line, *(cell(told.get(name)) for name in COLUMNS)]


def _money(value: Any) -> str | None:
    """As people write it: with a comma."""
    return None if value is None else f"{value:.2f}".replace(".", ",")


def _lines(rows: list[list[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=";", quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue().encode()
