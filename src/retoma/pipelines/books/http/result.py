"""The result of a book as its first users know it: one report for all chapters, and their summaries."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from retoma.pipelines.books.contract import Checkpoint
from retoma.pipelines.books.http import schemas as shapes
from retoma.pipelines.books.model import Session
from retoma.pipelines.books.progress import standing
from retoma.pipelines.books.reading import book_of, reasons
from retoma.pipelines.books.remarks import all_said
from retoma.pipelines.books.text.executive import as_text
from retoma.pipelines.books.text.exports import FORMATS
from retoma.pipelines.books.voice import message_of
from retoma.web.words import phrase

_FULL = 100.0


def result_of(session: Session, results: Mapping[str, Checkpoint], exports: str, language: str) -> shapes.BookResult:
    """What *results* come to, told in *language*; *exports* is where files are had once all is done."""
    step, done = standing(session, content=True), session.state == "done"
    message = message_of(step, partial(phrase, language))
    errors = [f"{number}: {why}" for number, each in results.items() for why in all_said(reasons(each), language)]
    if step.error is not None:
        errors.insert(0, f"{message} ({step.error})")
    report = _coverage(session, results)
    status: Any = {"in_progress": "PROCESSING", "paused": "PAUSED", "failed": "FAIL"}.get(session.state)
    return shapes.BookResult(
        session_id=session.id,
        status=status or ("PASS" if report["passed"] else "FAIL"),
        stage=step.stage,
        percentage=step.percentage,
        message=message,
        errors=errors,
        exported_files={format: f"{exports}/{format}" for format in FORMATS} if done else {},
        coverage_report=report,
        addendum_metrics=report["summary"],
        summaries=[each.chapter_summary.model_dump(mode="json") for each in results.values()],
        summary=as_text(book_of(session, results).executive) if results else "",
    )


def _coverage(session: Session, results: Mapping[str, Checkpoint]) -> dict[str, Any]:
    reports = [each.coverage_report for each in results.values()]
    total = sum(each.recall_set.critical_items_total for each in reports)
    covered = sum(each.recall_set.critical_items_covered for each in reports)
    addendums = [each.audit_result.addendum_count for each in reports]
    return {
        "version": "1.0",
        "generated_at": session.updated_at.isoformat(),
        "overall_coverage_percentage": _FULL * covered / total if total else _FULL * bool(reports),
        "passed": session.state == "done" and all(each.passed for each in results.values()),
        "chapters": [each.model_dump(mode="json") for each in reports],
        "summary": {
            "total_chapters": session.chapters,
            "chapters_with_100_percent": sum(each.chunk_coverage_percentage >= _FULL for each in reports),
            "chapters_failed": sum(not each.passed for each in results.values()),
            "chapters_using_addendum": sum(count > 0 for count in addendums),
            "total_addendums_used": sum(addendums),
            "avg_addendums_per_chapter": sum(addendums) / len(addendums) if addendums else 0.0,
        },
    }
