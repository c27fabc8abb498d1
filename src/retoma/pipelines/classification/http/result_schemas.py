"""Results on the wire, in the words of the classifier's users."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from retoma.pipelines.classification.model import Result
from retoma.pipelines.classification.translations import DOCUMENTS, SOURCES
from retoma.web.api.schemas.requests import Flag, Wanted
from retoma.web.api.schemas.responses import Schema, Time

Name = Annotated[str, Field(min_length=1, max_length=200)]


class ResultFilter(Wanted):
    """Which results, and how many at a time; *detalhes* brings the text that was classified and the whole answer."""

    categoria: Name | None = None
    confianca: Literal["alta", "media", "baixa"] | None = None
    apenas_erros: Flag = False
    cursor: Name | None = None
    limite: Annotated[int, Field(ge=1, le=2000)] = 200
    detalhes: Flag = False


class Before(Schema):
    """What a result was before its batch was judged as a whole."""

    categoria: str | None
    subcategoria: str | None
    confianca: str | None

    @classmethod
    def seen(cls, each: Result) -> Before | None:
        """As it goes over the wire; nothing where the batch changed nothing."""
        if each.was is None:
            return None
        was = each.was
        return cls(categoria=was["category"], subcategoria=was["subcategory"], confianca=was["confidence"])


class Moved(Schema):
    """Why the batch changed a result."""

    regra: str
    semelhanca: float | None
    semelhanca_antes: float | None
    documentos_parecidos: int | None
    vizinhos: list[int]

    @classmethod
    def seen(cls, each: Result) -> Moved | None:
        """As it goes over the wire; nothing where the batch changed nothing."""
        if each.why is None:
            return None
        why = each.why
        return cls(
            regra=why["rule"],
            semelhanca=why.get("likeness"),
            semelhanca_antes=why.get("likeness_before"),
            documentos_parecidos=why.get("documents"),
            vizinhos=[near["id"] for near in why.get("neighbours", ()) if near["id"] is not None],
        )


class ResultShown(Schema):
    """A document and what was found. What documents say is there with the scope content:read."""

    id: int
    codigo_id: int
    codigo_documento: str
    numero_processo: str | None
    nome_arquivo: str | None
    status: Literal["PENDENTE", "PROCESSANDO", "CONCLUIDO", "ERRO", "PULADO", "CANCELADO"]
    fonte: str
    categoria: str | None
    subcategoria: str | None
    confianca: str | None
    pontuacao: float | None
    margem: float | None
    revisar: bool
    justificativa: str | None
    trecho: str | None
    texto_extraido_via: str | None
    tokens_extraidos: int | None
    tokens_usados: int | None
    custo_usd: str | None
    chunk_usado: str | None
    resultado_json: dict[str, Any] | None
    antes_do_lote: Before | None
    mudanca: Moved | None
    motivo: str | None
    erro_mensagem: str | None
    tentativas: int
    ultimo_erro_em: Time | None
    copiado_de: int | None
    processado_em: Time | None

    @classmethod
    def seen(cls, each: Result, *, content: bool, details: bool) -> ResultShown:
        """A result as it goes over the wire."""
        return cls(
            id=each.id,
            codigo_id=each.document_id,
            codigo_documento=each.code,
            numero_processo=each.case_number,
            nome_arquivo=each.filename,
            status=DOCUMENTS[each.state],
            fonte=SOURCES.get(each.source, each.source),
            categoria=each.category,
            subcategoria=each.subcategory,
            confianca=each.confidence,
            pontuacao=each.score,
            margem=each.margin,
            revisar=each.to_review,
            justificativa=each.justification if content else None,
            trecho=each.quote if content else None,
            texto_extraido_via=each.text_source,
            tokens_extraidos=each.text_tokens,
            tokens_usados=each.tokens,
            custo_usd=None if each.cost is None else str(each.cost),
            chunk_usado=each.chunk_used if content and details else None,
            resultado_json=each.answer if content and details else None,
            antes_do_lote=Before.seen(each),
            mudanca=Moved.seen(each),
            motivo=each.reason,
            erro_mensagem=each.said if content else None,
            tentativas=each.attempts,
            ultimo_erro_em=each.failed_at,
            copiado_de=each.copied_from,
            processado_em=each.processed_at,
        )


class Mosaic(Schema):
    """One letter per document, in order: P waits, A is at work, C is done, E failed, U was skipped, X was cancelled."""

    execucao_id: int
    total: int
    documentos: str
