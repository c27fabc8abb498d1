"""A checkpoint is made: from what the text side says of a chapter, and from where the run stands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from retoma.pipelines.books.contract import NO_EXAMPLES
from retoma.pipelines.books.model import StoredChapter
from retoma.pipelines.books.ports import Digest
from retoma.pipelines.books.remarks import to_values
from retoma.pipelines.books.verdicts import checksum_of, hash_of

_SHA256 = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run stands when it saves a checkpoint: chapters that are done, in the order of the book."""

    session_id: str
    started_at: datetime
    now: datetime
    chunks: Mapping[str, tuple[int, int]]
    """For each chapter that is done the chunks that were read, and all."""
    order: Sequence[str]
    """All chapters of the plan."""

    def metadata(self, number: str, chunks: tuple[int, int]) -> dict[str, Any]:
        """The metadata of a checkpoint of chapter *number*."""
        done = {**self.chunks, number: chunks}
        places = {each: place for place, each in enumerate(self.order)}
        processed = sorted(done, key=lambda each: places.get(each, len(places)))
        return {
            "session_id": self.session_id,
            "timestamp_inicio": self.started_at.isoformat(),
            "timestamp_ultimo_checkpoint": self.saved_at.isoformat(),
            "capitulos_processados": processed,
            "chunks_processados_por_capitulo": {each: done[each][0] for each in processed},
            "total_chunks_por_capitulo": {each: done[each][1] for each in processed},
        }

    @property
    def saved_at(self) -> datetime:
        """Now, and after the start even if the clock was set back meanwhile."""
        return max(self.now, self.started_at + timedelta(microseconds=1))


def composed(
    digest: Digest,
    chapter: StoredChapter,
    progress: Progress,
    *,
    input_sha256: str,
    configuration: Mapping[str, Any],
    language: str,
) -> bytes:
    """The checkpoint of *chapter* as it is kept and exported."""
    coverage = digest.coverage
    value = {
        "session_id": progress.session_id,
        "chapter_number": chapter.number,
        "timestamp_checkpoint": progress.saved_at.isoformat(),
        "chapter_summary": _summary(digest, chapter, language),
        "coverage_report": _coverage(digest, chapter),
        "metadata": progress.metadata(chapter.number, (coverage.processed_chunks, coverage.total_chunks)),
        "retoma": {
            "version": 1,
            "checksum": _SHA256,
            "input_sha256": input_sha256,
            "chapter_sha256": chapter.sha256,
            "configuration": dict(configuration),
            "configuration_hash": hash_of(configuration),
            **_ours(digest, language),
        },
    }
    return sealed(value)


def _summary(digest: Digest, chapter: StoredChapter, language: str) -> dict[str, Any]:
    summary = digest.summary
    return {
        "numero": chapter.number,
        "titulo": chapter.title or chapter.number,
        "palavras": chapter.words,
        "palavras_resumo": len(summary.text.split()),
        "paginas": [page for page in chapter.pages if page > 0],
        "resumo": summary.text,
        "pontos_chave": list(summary.key_points),
        "citacoes": [each.text for each in summary.quotations],
        "exemplos": list(summary.examples) or [NO_EXAMPLES[language]],
    }


def _coverage(digest: Digest, chapter: StoredChapter) -> dict[str, Any]:
    coverage, audit = digest.coverage, digest.audit
    critical = [item for item in coverage.items if item.critical]
    return {
        "chapter_number": chapter.number,
        "chapter_title": chapter.title or chapter.number,
        "total_chunks": coverage.total_chunks,
        "processed_chunks": coverage.processed_chunks,
        "chunk_coverage_percentage": coverage.percentage,
        "recall_set": {
            "critical_items_total": len(critical),
            "critical_items_covered": sum(item.covered for item in critical),
            "supporting_items_total": len(coverage.items) - len(critical),
            "missing_critical_item_ids": [item.id for item in critical if not item.covered],
        },
        "audit_result": {
            "passed": audit.passed,
            "regeneration_count": audit.regenerations,
            "addendum_count": audit.addendums,
            "missing_markers": list(audit.missing_markers),
            "invalid_chunks": [{"item_id": id, "chunks": list(chunks)} for id, chunks in audit.invalid_chunks],
        },
    }


def _ours(digest: Digest, language: str) -> dict[str, Any]:
    summary, coverage = digest.summary, digest.coverage
    shortfalls = dict(summary.shortfalls)
    if not summary.examples:
        shortfalls.setdefault("exemplos", NO_EXAMPLES[language])
    return {
        "passed": digest.passed,
        "shortfalls": shortfalls,
        "quotations": [{"text": each.text, "page": each.page} for each in summary.quotations],
        "items": [_item(item) for item in coverage.items],
        "sentences": coverage.sentences,
        "read_sentences": coverage.read_sentences,
        "unread": [list(span) for span in coverage.unread],
        "errors": to_values(digest.audit.errors),
    }


def _item(item: Any) -> dict[str, Any]:
    names = ("id", "text", "critical", "reason", "covered")
    return {**{name: getattr(item, name) for name in names}, "chunks": list(item.chunks)}


def taken_over(body: bytes, chapter: StoredChapter, progress: Progress, *, input_sha256: str) -> bytes:
    """A valid checkpoint of another session for the same text, as one of this session."""
    value = json.loads(body)
    coverage = value["coverage_report"]
    value["session_id"] = progress.session_id
    value["timestamp_checkpoint"] = progress.saved_at.isoformat()
    value["metadata"] = progress.metadata(chapter.number, (coverage["processed_chunks"], coverage["total_chunks"]))
    value["retoma"]["input_sha256"] = input_sha256
    return sealed(value)


def sealed(value: dict[str, Any]) -> bytes:
    """*value* with its checksum, as bytes."""
    value["retoma"]["checksum"] = checksum_of(value)
    return json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "replace")
