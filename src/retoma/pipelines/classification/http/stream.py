"""The story of an execution in the words of the classifier's users: events without a name, whose *tipo* says what they
are. It only watches: who goes away stops nothing.

Everything comes from the same newsroom as the engine's own stream. Numbers (``id:``) are those of the story, so a page
that comes back with the last one it saw misses nothing; figures are absolute, so what is told twice does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retoma.model.batch import BatchState
from retoma.model.ids import BatchId
from retoma.pipelines.classification.http.causes import trouble_of
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.model import Execution, Result
from retoma.pipelines.classification.translations import EXECUTIONS
from retoma.web.http.stream_encoders import SERVER_SENT_EVENTS, News
from retoma.web.words import number_of

_ENDED = {"completed", "skipped", "failed", "cancelled", "review"}
_MOST_REVIVALS = 100


def event(tipo: str, seq: int | None, said: dict[str, Any], now: Execution) -> News:
    """One event, without a name, as every EventSource hears it."""
    figures = {
        "status": EXECUTIONS[now.state],
        "processados": now.done,
        "total": now.total,
        "com_sucesso": now.well,
        "com_erro": now.failed,
        "ultimo_heartbeat": now.last_progress_at.isoformat() if now.last_progress_at else None,
    }
    return News(None, seq, {"tipo": tipo, **said, **figures})


def pulse(id: int, data: dict[str, Any]) -> News:
    """A sign of life. It has a name, so that who listens for the others only is not disturbed."""
    said = {
        "tipo": "heartbeat",
        "execucao_id": id,
        "status": EXECUTIONS[BatchState(data["state"])],
        "ultimo_heartbeat": data["last_progress_at"],
        "agora": data["server_time"],
        "trava_em_segundos": data["stalls_in_s"],
    }
    return News("heartbeat", None, said)


class ExecutionVoice:
    """Tells one execution, the same to everybody who may see as much of it. However many pieces are told together and
    however many listen, the database is asked twice at most: how the execution stands, and what was found in the
    documents that ended.
    """

    encoding = SERVER_SENT_EVENTS

    def __init__(self, library: Classification, id: BatchId, *, content: bool) -> None:
        self._library = library
        self._id = id
        self._content = content
        self._revived: dict[int, int] = {}
        """How many documents were queued again, by the number of the event."""
        self._retried = (0, 0)
        """The last time that errors were tried again: the number of the event, and how many they were."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionVoice) and (self._id, self._content) == (other._id, other._content)

    def __hash__(self) -> int:
        return hash((self._id, self._content))

    async def tell(self, pieces: Sequence[News]) -> list[list[News]]:
        if all(name not in {"snapshot", "items", "state"} for name, _, _ in pieces):
            return [[pulse(self._id, data)] if name == "heartbeat" else [] for name, _, data in pieces]
        now = await self._library.execution(self._id)
        found = await self._found(pieces)
        return [self._translated(*piece, now, found) for piece in pieces]

    async def _found(self, pieces: Sequence[News]) -> dict[int, Result]:
        """What was found in the documents that ended, by their jobs."""
        jobs = [job for name, _, data in pieces if name == "items" for job in _ended(data)]
        if not jobs:
            return {}
        return {each.job_id: each for each in await self._library.results(self._id, jobs=jobs, limit=len(jobs))}

    def _translated(
        self, name: str | None, seq: int | None, data: dict[str, Any], now: Execution, found: dict[int, Result]
    ) -> list[News]:
        match name:
            case "heartbeat":
                return [pulse(self._id, data)]
            case "items":
                return self._documents(now, seq, data, found)
            case "state":
                return [self._turn(now, seq, data)]
            case "snapshot":
                said = {"mensagem": f"Acompanhando a execução {now.id}.", "execucao_id": now.id}
                return [event("inicio", seq, {**said, "rota_origem": now.route}, now)]
            case _:
                return []

    def _documents(self, now: Execution, seq: int | None, data: dict[str, Any], found: dict[int, Result]) -> list[News]:
        """One event for each document that ended; the last of them has the number."""
        revived = sum(state == "queued" for _, state in data.get("items", ()))
        if revived and seq:
            self._revived[seq] = revived
            if len(self._revived) > _MOST_REVIVALS:
                del self._revived[min(self._revived)]
        ended = sorted((found[job] for job in _ended(data) if job in found), key=lambda each: each.id)
        if not ended:
            many = f"{data['count']} documentos mudaram." if data.get("many") else "Documentos em processamento."
            return [event("progresso", seq, {"mensagem": many, "sucesso": True, "resultado": None}, now)]
        return [
            event("progresso", seq if place == len(ended) else None, self._progress(each), now)
            for place, each in enumerate(ended, start=1)
        ]

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

    def _turn(self, now: Execution, seq: int | None, data: dict[str, Any]) -> News:
        """A change of the execution itself; what it is now is in *status*."""
        tipo, said, more = self._told(now, seq or 0, data)
        return event(tipo, seq, {"mensagem": said, "execucao_id": now.id, "rota_origem": now.route, **more}, now)

    def _told(self, now: Execution, seq: int, data: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
        left = now.queued + now.running
        told: tuple[str, str, dict[str, Any]]
        match data.get("kind"), data.get("why"):
            case "running" | "queued" | "completed", "resumed":
                said = f"Retomada: {now.done} já processados, {left} pendentes."
                told = "retomada", said, {"ja_processados": now.done, "pendentes": left}
            case "running", "retried":
                # The event just before it has them; who catches up tells of earlier times than who is there.
                jobs = self._revived.get(seq - 1, 0)
                self._retried = max(self._retried, (seq, jobs))
                said = f"Reprocessando {number_of(jobs, 'documento', 'documentos')} com erro."
                told = "reprocessamento", said, {"total_erros": jobs, "reprocessaveis": jobs}
            case "completed", _:
                said = f"Concluída: {now.well} com sucesso, {now.failed} com erro."
                at, jobs = self._retried
                recovered = {"recuperados": max(0, jobs - now.failed), "ainda_com_erro": now.failed}
                told = (
                    "concluido",
                    said,
                    {"sucesso": now.well, "erros": now.failed, **(recovered if jobs and at < seq else {})},
                )
            case ("stalled" | "failed" | "cancelled") as ended, _:
                cause = trouble_of(now, content=self._content) if ended == now.state else None
                said = f"{_ENDINGS[ended]}: {cause}" if cause else f"{_ENDINGS[ended]}."
                told = "erro", said, {}
            case "running", None:
                told = "inicio", f"Execução iniciada: {number_of(now.total, 'documento', 'documentos')}.", {}
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


def _ended(data: dict[str, Any]) -> list[int]:
    return [job for job, state in data.get("items", ()) if state in _ENDED]
