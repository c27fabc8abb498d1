"""Reports that workers write, as queries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from retoma.store.query import Query, load

SQL = load("retoma.pipelines.quotes.queries", "report_jobs.sql")


@dataclass(frozen=True, slots=True)
class ReportJob:
    """A report of a batch that a worker writes, or has written."""

    id: int
    batch_id: int
    job_id: int
    closing: bool
    asked_by: str
    asked_at: datetime
    parts: int | None
    parts_done: int
    ready_at: datetime | None
    report_id: int | None
    pdf_blob: str | None
    pdf_bytes: int | None
    xlsx_blob: str | None
    xlsx_bytes: int | None
    sha256: str | None
    job_state: str | None
    error: str | None

    @property
    def state(self) -> str:
        """READY, FAILED, or how far it is: QUEUED or MAKING."""
        if self.ready_at is not None:
            return "READY"
        if self.job_state not in ("queued", "running"):
            return "FAILED"
        return "QUEUED" if self.parts is None else "MAKING"

    @property
    def percent(self) -> int:
        """How much of it is done."""
        return 100 * self.parts_done // self.parts if self.parts else 0


def put(batch_id: int, job_id: int, *, closing: bool, by: str) -> Query[int]:
    return Query(SQL["put"], int, {"batch_id": batch_id, "job_id": job_id, "closing": closing, "by": by})


def page(batch_id: int, *, only_ready: bool = False, limit: int = 20) -> Query[ReportJob]:
    return Query(SQL["page"], ReportJob, {"batch_id": batch_id, "only_ready": only_ready, "limit": limit})


def closing(batch_id: int) -> Query[int]:
    return Query(SQL["closing"], int, {"batch_id": batch_id})


def begin(job_id: int, parts: int) -> Query[int]:
    return Query(SQL["begin"], int, {"job_id": job_id, "parts": parts})


def advance(job_id: int, done: int) -> Query[int]:
    return Query(SQL["advance"], int, {"job_id": job_id, "done": done})


def finish(
    job_id: int,
    *,
    report_id: int | None,
    pdf_blob: str,
    pdf_bytes: int,
    xlsx_blob: str,
    xlsx_bytes: int,
    sha256: str,
) -> Query[int]:
    params = {
        "job_id": job_id,
        "report_id": report_id,
        "pdf_blob": pdf_blob,
        "pdf_bytes": pdf_bytes,
        "xlsx_blob": xlsx_blob,
        "xlsx_bytes": xlsx_bytes,
        "sha256": sha256,
    }
    return Query(SQL["finish"], int, params)
