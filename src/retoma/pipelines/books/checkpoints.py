"""Checkpoints, as queries."""

from __future__ import annotations

from collections.abc import Sequence

from retoma.pipelines.books.model import Origin, Row
from retoma.pipelines.books.verdicts import Fault, Verdict
from retoma.store.query import Query, load

SQL = load("retoma.pipelines.books.queries", "checkpoints.sql")


def _reusable(chapter_sha256: str, session_id: str, body: bytes) -> tuple[str, str, bytes]:
    return chapter_sha256, session_id, bytes(body)


def of(session_id: str) -> Query[Row]:
    return Query(SQL["of"], Row, {"session_id": session_id})


def valid(session_id: str) -> Query[Row]:
    return Query(SQL["valid"], Row, {"session_id": session_id})


def save(
    session_id: str, chapter_number: str, body: bytes, verdict: Verdict, *, origin: Origin, source: str | None = None
) -> Query[int]:
    said, ours = verdict.checkpoint, None if verdict.checkpoint is None else verdict.checkpoint.retoma
    fault = verdict.faults[0] if verdict.faults else None
    params = {
        "session_id": session_id,
        "chapter_number": chapter_number,
        "body": body,
        "origin": origin,
        "source": source,
        "reason": fault and fault.reason,
        "message": fault and str(fault)[:2000].replace("\0", "\ufffd"),
        "chapter_sha256": ours and ours.chapter_sha256,
        "configuration_hash": ours and ours.configuration_hash,
        "total_chunks": said.coverage_report.total_chunks if said else 0,
        "processed_chunks": said.coverage_report.processed_chunks if said else 0,
        "words": said.chapter_summary.palavras if said else 0,
        "summary_words": said.chapter_summary.palavras_resumo if said else 0,
        "passed": said and said.passed,
        "saved_at": said and said.timestamp_checkpoint,
    }
    return Query(SQL["save"], int, params)


def set_aside(id: int, fault: Fault) -> Query[int]:
    params = {"id": id, "reason": fault.reason, "message": str(fault)[:2000].replace("\0", "\ufffd")}
    return Query(SQL["set_aside"], int, params)


def reusable(session_id: str, hashes: Sequence[str], configuration_hash: str) -> Query[tuple[str, str, bytes]]:
    params = {"session_id": session_id, "hashes": list(hashes), "configuration_hash": configuration_hash}
    return Query(SQL["reusable"], _reusable, params)
