"""The story of an execution in the words of the classifier's users: events without a name, whose *tipo* says what they
are. It only watches: who goes away stops nothing.

Everything comes from the same newsroom as the engine's own stream. Numbers (``id:``) are those of the story, so a page
that comes back with the last one it saw misses nothing; figures are absolute, so what is told twice does no harm.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import orjson

from retoma.batch import BatchState
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.model import Execution, Result
from retoma.pipelines.classification.words import EXECUTIONS
from retoma.web.classification_shapes import trouble_of
from retoma.web.stream import Newsroom, as_lines

_ENDED = {"completed", "skipped", "failed", "cancelled", "review"}


def event(tipo: str, seq: int | None, said: dict[str, Any], now: Execution) -> bytes:
    """One event as text/event-stream has it; without a name, as every EventSource hears it."""
    figures = {
        "status": EXECUTIONS[now.state],
        "processados": now.done,
        "total": now.total,
        "com_sucesso": now.well,
        "com_erro": now.failed,
        "ultimo_heartbeat": now.last_progress_at.isoformat() if now.last_progress_at else None,
    }
    number = b"" if seq is None else b"id: %d\n" % seq
    return number + b"data: " + orjson.dumps({"tipo": tipo, **said, **figures}, default=str) + b"\n\n"


def pulse(id: int, data: dict[str, Any]) -> bytes:
    """A sign of life. It has a name, so that who listens for the others only is not disturbed."""
    said = {
        "tipo": "heartbeat",
        "execucao_id": id,
        "status": EXECUTIONS[BatchState(data["state"])],
        "ultimo_heartbeat": data["last_progress_at"],
        "agora": data["server_time"],
        "trava_em_segundos": data["stalls_in_s"],
    }
    return b"event: heartbeat\ndata: " + orjson.dumps(said) + b"\n\n"


class Teller:
    """Tells one execution to one client."""

    def __init__(self, library: Classification, newsroom: Newsroom, id: int, *, content: bool) -> None:
        self._library = library
        self._newsroom = newsroom
        self._id = id
        self._content = content
        self._revived = 0
        """How many documents were queued again by what happened last."""
        self._retried = 0
        """How many errors were tried again; 0 when none were."""

    async def tell(self, after: int | None) -> AsyncIterator[bytes]:
        """What happened after *after*, and what happens until it has ended."""
        # So that not all come back at once.
        yield b"retry: %d\n\n" % random.randint(2000, 5000)  # noqa: S311
        async with aclosing(self._newsroom.follow(self._id, after, as_lines)) as news:  # type: ignore[type-var]
            async for piece in news:
                for line in piece.splitlines():
                    said = orjson.loads(line)
                    async for told in self._translated(said["event"], said["id"], said["data"]):
                        yield told

    async def _translated(self, name: str, seq: int | None, data: dict[str, Any]) -> AsyncIterator[bytes]:
        if name == "heartbeat":
            yield pulse(self._id, data)
        elif name in {"snapshot", "items", "state"}:
            now = await self._library.execution(self._id)
            if name == "items":
                async for told in self._documents(now, seq, data):
                    yield told
            elif name == "state":
                yield self._turn(now, seq, data)
            else:
                said = {"mensagem": f"Acompanhando a execução {now.id}.", "execucao_id": now.id}
                yield event("inicio", seq, {**said, "rota_origem": now.route}, now)

    async def _documents(self, now: Execution, seq: int | None, data: dict[str, Any]) -> AsyncIterator[bytes]:
        """One event for each document that ended; the last of them has the number."""
        moved = data.get("items", ())
        self._revived = sum(state == "queued" for _, state in moved)
        ended = [job for job, state in moved if state in _ENDED]
        found = await self._library.results(self._id, jobs=ended) if ended else []
        if not found:
            many = f"{data['count']} documentos mudaram." if data.get("many") else "Documentos em processamento."
            yield event("progresso", seq, {"mensagem": many, "sucesso": True, "resultado": None}, now)
        for place, each in enumerate(found, start=1):
            yield event("progresso", seq if place == len(found) else None, self._progress(each), now)

    def _progress(self, each: Result) -> dict[str, Any]:
        well = each.category is not None and each.state != "failed"
        how = "pulado (já classificado)" if each.state == "skipped" else each.category if well else "erro"
        return {
            "mensagem": f"{each.code}: {how}",
            "sucesso": well,
            "resultado": {
                "codigo_documento": each.code,
                "numero_processo": each.case_number,
                "nome_arquivo": each.filename,
                "categoria": each.category,
                "subcategoria": each.subcategory,
                "confianca": each.confidence,
                "justificativa": each.justification if self._content else None,
                "sucesso": well,
                "erro": each.said if self._content else None,
                "texto_via": each.text_source,
                "tokens_usados": each.tokens,
            },
        }

    def _turn(self, now: Execution, seq: int | None, data: dict[str, Any]) -> bytes:
        """A change of the execution itself; what it is now is in *status*."""
        tipo, said, more = self._told(now, data)
        return event(tipo, seq, {"mensagem": said, "execucao_id": now.id, "rota_origem": now.route, **more}, now)

    def _told(self, now: Execution, data: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
        left = now.queued + now.running
        told: tuple[str, str, dict[str, Any]]
        match data.get("kind"), data.get("why"):
            case "running" | "queued" | "completed", "resumed":
                said = f"Retomada: {now.done} já processados, {left} pendentes."
                told = "retomada", said, {"ja_processados": now.done, "pendentes": left}
            case "running", "retried":
                self._retried = self._revived
                said = f"Reprocessando {self._retried} documentos com erro."
                told = "reprocessamento", said, {"total_erros": self._retried, "reprocessaveis": self._retried}
            case "completed", _:
                said = f"Concluída: {now.well} com sucesso, {now.failed} com erro."
                recovered = {"recuperados": max(0, self._retried - now.failed), "ainda_com_erro": now.failed}
                told = (
                    "concluido",
                    said,
                    {"sucesso": now.well, "erros": now.failed, **(recovered if self._retried else {})},
                )
            case ("stalled" | "failed" | "cancelled") as ended, _:
                cause = trouble_of(now) if ended == now.state else None
                said = f"{_ENDINGS[ended]}: {cause}" if cause else f"{_ENDINGS[ended]}."
                told = "erro", said, {}
            case "running", None:
                told = "inicio", f"Execução iniciada: {now.total} documentos.", {}
            case kind, _:
                told = (
                    "progresso",
                    _PLAIN.get(str(kind), "Execução em andamento."),
                    {"sucesso": True, "resultado": None},
                )
        return told


_ENDINGS = {"stalled": "Execução travada", "failed": "Execução com erro", "cancelled": "Execução cancelada"}
_PLAIN = {
    "created": "Execução criada.",
    "sealed": "Execução pronta para começar.",
    "paused": "Execução pausada.",
    "running": "A execução voltou a avançar.",
}
