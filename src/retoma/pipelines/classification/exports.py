"""All results of an execution as a table or as JSON, made page by page and sent in pieces."""

from __future__ import annotations

import asyncio
import csv
import io
import re
import tempfile
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import orjson

from retoma.errors import ConfigurationError
from retoma.model.ids import BatchId
from retoma.pipelines.classification.model import Execution, Result
from retoma.pipelines.classification.translations import DOCUMENTS, EXECUTIONS, SOURCES
from retoma.values.escaping import cell

if TYPE_CHECKING:
    from retoma.pipelines.classification.library import Classification

MEDIA_TYPES = {
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
}
_PAGE = 500
_PIECE = 1 << 18
_LONGEST_CELL = 32_767
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_UNKNOWN = "desconhecido"  # in no sum, and not zero

_RULES = {
    "centre": "mais perto dos documentos da nova categoria",
    "stranger": "grupo que não se parece com nenhuma categoria",
    "first": "o lote não foi refinado",
}

COLUMNS: dict[str, Callable[[Result], Any]] = {
    "Código": lambda each: each.code,
    "Número do processo": lambda each: each.case_number,
    "Arquivo": lambda each: each.filename,
    "Categoria": lambda each: each.category,
    "Subcategoria": lambda each: each.subcategory,
    "Confiança": lambda each: each.confidence,
    "Pontuação": lambda each: each.score,
    "Revisar": lambda each: "sim" if each.to_review else "não" if each.category else None,
    "Categoria antes do lote": lambda each: each.was_label,
    "Mudou por": lambda each: _RULES.get((each.why or {}).get("rule", "")) if each.was_label else None,
    "Justificativa": lambda each: each.justification,
    "Status": lambda each: DOCUMENTS[each.state],
    "Fonte": lambda each: SOURCES.get(each.source, each.source),
    "Texto extraído via": lambda each: each.text_source,
    "Tokens": lambda each: each.tokens,
    "Custo (US$)": lambda each: float(each.cost) if each.cost is not None else _UNKNOWN if each.processed_at else None,
    "Tentativas": lambda each: each.attempts,
    "Erro": lambda each: each.said,
    "Processado em": lambda each: each.processed_at.isoformat() if each.processed_at else None,
}


def export(library: Classification, id: BatchId, format: str) -> AsyncIterator[bytes]:
    """The pieces of the file."""
    ways = {"xlsx": _xlsx, "csv": _csv, "json": _json}
    if format not in ways:
        raise ConfigurationError(f"Results are exported as {', '.join(ways)}, not {format!r}.")
    return ways[format](library, id)


async def _pages(library: Classification, id: BatchId) -> AsyncIterator[list[Result]]:
    after = 0
    while page := await library.results(id, after=after, limit=_PAGE):
        yield page
        after = page[-1].id


def _told(found: Execution) -> dict[str, Any]:
    """What an export says of the execution itself."""
    how = found.configuration
    return {
        "execucao_id": found.id,
        "projeto_id": found.project_id,
        "projeto": found.project,
        "status": EXECUTIONS[found.state],
        "total_arquivos": found.total,
        "arquivos_processados": found.done,
        "arquivos_sucesso": found.well,
        "arquivos_erro": found.failed,
        "modelo": how.get("model"),
        "prompt": how.get("prompt_name"),
        "prompt_sha256": how.get("prompt_sha256"),
        "modo_processamento": how.get("mode"),
        "custo_usd": None if found.cost is None else str(found.cost),
        "chamadas_sem_preco": found.unpriced,
        "iniciado_em": found.started_at.isoformat() if found.started_at else None,
        "finalizado_em": found.finished_at.isoformat() if found.finished_at else None,
        "exportado_em": found.now.isoformat(),
    }


async def _csv(library: Classification, id: BatchId) -> AsyncIterator[bytes]:
    await library.execution(id)
    yield _lines([list(COLUMNS)], first=True)
    async for page in _pages(library, id):
        yield _lines([[cell(read(each)) for read in COLUMNS.values()] for each in page])


def _lines(rows: list[list[Any]], *, first: bool = False) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=";", quoting=csv.QUOTE_ALL).writerows(rows)
    # With its mark at the start, spreadsheets read the accents as they are.
    return ("\ufeff" if first else "").encode() + text.getvalue().encode()


async def _json(library: Classification, id: BatchId) -> AsyncIterator[bytes]:
    found = await library.execution(id)
    yield b'{"execucao":' + orjson.dumps(_told(found)) + b',"resultados":['
    first = True
    async for page in _pages(library, id):
        pieces = [orjson.dumps(_whole(each)) for each in page]
        yield (b"" if first else b",") + b",".join(pieces)
        first = False
    yield b"]}\n"


def _whole(each: Result) -> dict[str, Any]:
    return {
        "id": each.id,
        "codigo_documento": each.code,
        "numero_processo": each.case_number,
        "nome_arquivo": each.filename,
        "categoria": each.category,
        "subcategoria": each.subcategory,
        "confianca": each.confidence,
        "pontuacao": each.score,
        "margem": each.margin,
        "revisar": each.to_review,
        "justificativa": each.justification,
        "trecho": each.quote,
        "status": DOCUMENTS[each.state],
        "fonte": SOURCES.get(each.source, each.source),
        "texto_extraido_via": each.text_source,
        "tokens_extraidos": each.text_tokens,
        "tokens_usados": each.tokens,
        "custo_usd": None if each.cost is None else str(each.cost),
        "tentativas": each.attempts,
        "erro_mensagem": each.said,
        "resultado_json": each.answer,
        "antes_do_lote": each.was,
        "mudanca": each.why,
        "copiado_de": each.copied_from,
        "processado_em": each.processed_at.isoformat() if each.processed_at else None,
    }


async def _xlsx(library: Classification, id: BatchId) -> AsyncIterator[bytes]:
    try:
        from openpyxl import Workbook  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra, and slow to load
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "openpyxl is not installed, and spreadsheets need it.", next="pip install 'retoma[local]', or export csv."
        ) from error
    found = await library.execution(id)
    book = Workbook(write_only=True)
    sheet, about = book.create_sheet("Resultados"), book.create_sheet("Execução")
    sheet.append(list(COLUMNS))
    async for page in _pages(library, id):
        await asyncio.to_thread(_append, sheet, [[read(each) for read in COLUMNS.values()] for each in page])
    _append(about, [[name, value] for name, value in _told(found).items()])
    with tempfile.TemporaryFile() as file:
        await asyncio.to_thread(book.save, file)
        await asyncio.to_thread(file.seek, 0)
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


def _append(sheet: Any, rows: list[list[Any]]) -> None:
    from openpyxl.cell import WriteOnlyCell  # type: ignore[import-untyped]  # noqa: PLC0415 - as above

    for row in rows:
        cells = []
        for value in row:
            text = _CONTROLS.sub("\ufffd", value)[:_LONGEST_CELL] if isinstance(value, str) else value
            cell = WriteOnlyCell(sheet, value=text)
            if isinstance(text, str):
                cell.data_type = "s"  # never a formula, whatever it begins with
            cells.append(cell)
        sheet.append(cells)
