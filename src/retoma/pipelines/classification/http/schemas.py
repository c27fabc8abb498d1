"""Executions and results on the wire, in the words of the classifier's users: their fields, letter by letter."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from retoma.model.batch import Progress
from retoma.pipelines.classification.findings import Finding
from retoma.pipelines.classification.http.causes import trouble_of
from retoma.pipelines.classification.model import Execution, Result
from retoma.pipelines.classification.translations import EXECUTIONS
from retoma.web.api.schemas.requests import WHOLE, Asked, Id
from retoma.web.api.schemas.responses import Schema, Time
from retoma.web.words.causes import cause_shown


class Start(Asked):
    """Which documents; all when none are named. *reaproveitar* false classifies anew what was classified before;
    *refinar* false leaves every result as it was found alone. *piloto* is how many are classified first; the others are
    held until the batch is released.
    """

    codigos_ids: Annotated[list[Id], Field(min_length=1, max_length=20_000)] | None = None
    reaproveitar: bool = True
    refinar: bool = True
    piloto: Annotated[int, Field(ge=0, le=1000), WHOLE] = 0


ExecutionStatus = Literal["PENDENTE", "EM_ANDAMENTO", "CONCLUIDO", "TRAVADO", "ERRO", "PAUSADO", "CANCELADO"]


class Started(Schema):
    """An execution that was begun, or was at work already."""

    mensagem: str
    execucao_id: int
    projeto_id: int
    status: ExecutionStatus
    total_arquivos: int
    rota_origem: str | None
    ja_em_andamento: bool
    status_url: str
    eventos_url: str


class FailedDocument(Schema):
    """A document in error, in short."""

    id: int
    codigo: str
    nome_arquivo: str | None
    erro_mensagem: str | None
    tentativas: int
    ultimo_erro_em: Time | None
    pode_reprocessar: bool


class Summary(Schema):
    """An execution as it stands, every figure from one snapshot."""

    id: int
    execucao_id: int
    projeto_id: int
    projeto_nome: str
    nome: str
    status: ExecutionStatus
    rota_origem: str | None
    total_arquivos: int
    arquivos_processados: int
    arquivos_sucesso: int
    arquivos_erro: int
    progresso_percentual: float
    contagem_por_status: dict[str, int]
    ultimo_heartbeat: Time | None
    ultimo_codigo_processado: str | None
    tentativas_retry: int
    max_retries: int
    pode_retomar: bool
    esta_travada: bool
    erro_mensagem: str | None
    modelo_usado: str | None
    prompt_nome: str | None
    custo_usd: str | None
    chamadas_sem_preco: int
    criado_em: Time
    iniciado_em: Time | None
    finalizado_em: Time | None
    arquivada: bool

    @classmethod
    def seen(cls, each: Execution, *, content: bool) -> Summary:
        """An execution as it goes over the wire."""
        return cls(**_summary(each, content=content))


class Strangers(Schema):
    """Documents that are alike and fit no category. Their words are there with content:read."""

    documentos: int
    palavras: list[str] | None
    exemplos: list[int]


class Together(Schema):
    """What the batch said of its documents when it was judged as a whole."""

    resultado: Literal["refined", "too_few", "no_spread", "contradicted", "off", "no_vectors"]
    documentos_julgados: int
    mudaram: int
    sem_categoria: int
    grupos: list[Strangers]
    categorias_sem_documento: list[str]
    julgado_em: Time

    @classmethod
    def seen(cls, each: Finding | None, *, content: bool) -> Together | None:
        """As it goes over the wire; nothing until the batch was judged."""
        if each is None:
            return None
        return cls(
            resultado=each.outcome,
            documentos_julgados=each.documents,
            mudaram=each.changed,
            sem_categoria=each.others,
            grupos=[
                Strangers(
                    documentos=group["documents"],
                    palavras=group["words"] if content else None,
                    exemplos=[near["id"] for near in group["examples"]],
                )
                for group in each.groups
            ],
            categorias_sem_documento=each.unused,
            julgado_em=each.found_at,
        )


class Detail(Summary):
    """An execution with its pace and the documents in error. The words of errors are there with content:read."""

    verificado_em: Time
    """The server's clock when this was seen: how long ago things are is told from it."""
    ritmo_por_segundo: float | None
    previsao_minima_segundos: float | None
    previsao_maxima_segundos: float | None
    segundos_sem_avanco: float | None
    trava_em_segundos: float | None
    causa: dict[str, Any] | None
    ultimo_evento: int
    documentos_com_erro: list[FailedDocument]
    conjunto: Together | None

    @classmethod
    def looked_at(
        cls, each: Execution, pace: Progress, failed: list[Result], together: Finding | None, *, content: bool
    ) -> Detail:
        """All that can be seen of an execution at once."""
        least, most = pace.eta or (None, None)
        return cls(
            **_summary(each, content=content),
            verificado_em=each.now,
            ritmo_por_segundo=pace.rate,
            previsao_minima_segundos=least.total_seconds() if least else None,
            previsao_maxima_segundos=most.total_seconds() if most else None,
            segundos_sem_avanco=pace.silent_seconds,
            trava_em_segundos=pace.stalls_in,
            causa=cause_shown(each.cause, content=content),
            ultimo_evento=each.event_seq,
            documentos_com_erro=[
                FailedDocument(
                    id=one.id,
                    codigo=one.code,
                    nome_arquivo=one.filename,
                    erro_mensagem=one.said if content else None,
                    tentativas=one.attempts,
                    ultimo_erro_em=one.failed_at,
                    pode_reprocessar=True,
                )
                for one in failed
            ],
            conjunto=Together.seen(together, content=content),
        )


def _summary(each: Execution, *, content: bool) -> dict[str, Any]:
    counts = {
        "PENDENTE": each.queued,
        "PROCESSANDO": each.running,
        "CONCLUIDO": each.completed + each.review,
        "ERRO": each.failed,
        "PULADO": each.skipped,
        "CANCELADO": each.cancelled,
    }
    return {
        "id": each.id,
        "execucao_id": each.id,
        "projeto_id": each.project_id,
        "projeto_nome": each.project,
        "nome": each.name,
        "status": EXECUTIONS[each.state],
        "rota_origem": each.route,
        "total_arquivos": each.total,
        "arquivos_processados": each.done,
        "arquivos_sucesso": each.well,
        "arquivos_erro": each.failed,
        "progresso_percentual": each.percent,
        "contagem_por_status": counts,
        "ultimo_heartbeat": each.last_progress_at,
        "ultimo_codigo_processado": each.last_key,
        "tentativas_retry": each.resumes,
        "max_retries": each.max_resumes,
        "pode_retomar": each.resumable,
        "esta_travada": each.state == "stalled",
        "erro_mensagem": trouble_of(each, content=content),
        "modelo_usado": each.configuration.get("model"),
        "prompt_nome": each.configuration.get("prompt_name"),
        "custo_usd": None if each.cost is None else str(each.cost),
        "chamadas_sem_preco": each.unpriced,
        "criado_em": each.created_at,
        "iniciado_em": each.started_at,
        "finalizado_em": each.finished_at,
        "arquivada": each.archived_at is not None,
    }


class DocumentFault(Schema):
    """A document in error. Its words are there with the scope content:read."""

    id: int
    codigo_documento: str
    numero_processo: str | None
    nome_arquivo: str | None
    erro_mensagem: str | None
    erro_stack: str | None
    tentativas: int
    ultimo_erro_em: Time | None
    pode_reprocessar: bool
    criado_em: Time

    @classmethod
    def seen(cls, each: Result, *, content: bool) -> DocumentFault:
        """A document in error as it goes over the wire."""
        return cls(
            id=each.id,
            codigo_documento=each.code,
            numero_processo=each.case_number,
            nome_arquivo=each.filename,
            erro_mensagem=each.said if content else None,
            erro_stack=each.stack if content else None,
            tentativas=each.attempts,
            ultimo_erro_em=each.failed_at,
            pode_reprocessar=True,
            criado_em=each.created_at,
        )


class Faults(Schema):
    """The documents in error, the newest error first."""

    execucao_id: int
    total_erros: int
    erros: list[DocumentFault]


class ExecutionResumed(Schema):
    """What a resume did; *ja_em_andamento* when it was at work already."""

    mensagem: str
    execucao_id: int
    status: ExecutionStatus
    mudou: bool
    ja_em_andamento: bool
    ja_processados: int
    pendentes: int
    tentativas_retry: int
    max_retries: int
    rota_origem: str | None
    status_url: str
    eventos_url: str


class AnotherPrompt(Asked):
    """The prompt for the documents that have not begun, a *modelo* when it is to be another one, and what is different,
    for those who compare.
    """

    prompt_id: Id
    modelo: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    observacao: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class ExecutionReplanned(Schema):
    """What a re-plan did; *documentos_movidos* run with the new prompt."""

    mensagem: str
    execucao_id: int
    status: ExecutionStatus
    mudou: bool
    documentos_movidos: int
    comparar_url: str
    status_url: str
    eventos_url: str


class Retried(Schema):
    """What trying the errors again did."""

    mensagem: str
    execucao_id: int
    status: ExecutionStatus
    total_erros: int
    reprocessaveis: int
    rota_origem: str | None
    status_url: str
    eventos_url: str


class Stopped(Schema):
    """An execution that was paused, cancelled or archived."""

    mensagem: str
    execucao_id: int
    status: ExecutionStatus
    arquivos_processados: int
    total_arquivos: int


class Stalled(Schema):
    """An execution in which nothing moves."""

    execucao_id: int
    projeto_id: int
    motivo: str | None
    ultimo_heartbeat: Time | None
    ultimo_codigo: str | None
    processados: int
    total: int
    rota_origem: str | None


class Round(Schema):
    """What the watchdog found, asked by a person; it looks by itself, too."""

    mensagem: str
    travadas: list[Stalled]
