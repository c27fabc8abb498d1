"""What a reader gets of a book: its valid checkpoints as one value, with why a chapter did not pass."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from retoma.pipelines.books.contract import NO_EXAMPLES, Checkpoint
from retoma.pipelines.books.model import Session
from retoma.pipelines.books.ports import LeftOut, Quotation, Summary
from retoma.pipelines.books.text.finished import FinishedBook, FinishedChapter
from retoma.pipelines.books.text.language import language_of


def book_of(session: Session, results: Mapping[str, Checkpoint]) -> FinishedBook:
    """*session* with what was made of its chapters, in their order."""
    left_out = (LeftOut(**{**each, "pages": tuple(each["pages"])}) for each in json.loads(session.left_out))
    return FinishedBook(
        session=session.id,
        title=session.title,
        language=language_of(" ".join(each.chapter_summary.resumo for each in results.values())),
        chapters=tuple(_chapter(each) for each in results.values()),
        finished_at=session.finished_at or datetime.now(UTC),
        left_out=tuple(left_out),
        pages=session.pages or 0,
    )


def reasons(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Why a chapter did not pass; nothing when it did."""
    return tuple(_reasons(checkpoint)) if not checkpoint.passed else ()


def _reasons(checkpoint: Checkpoint) -> Iterable[str]:
    coverage, ours = checkpoint.coverage_report, checkpoint.retoma
    if coverage.processed_chunks < coverage.total_chunks:
        yield f"{coverage.processed_chunks} of {coverage.total_chunks} chunks were read."
    if ours is not None and ours.read_sentences < ours.sentences:
        yield f"{ours.read_sentences} of {ours.sentences} sentences were read."
    if missing := coverage.recall_set.missing_critical_item_ids:
        yield f"Critical items are missing: {', '.join(missing)}."
    if ours is not None:
        yield from ours.errors
    if not coverage.audit_result.passed:
        yield "The audit did not pass."


def _chapter(checkpoint: Checkpoint) -> FinishedChapter:
    said, ours = checkpoint.chapter_summary, checkpoint.retoma
    quoted = [(each.text, each.page) for each in ours.quotations] if ours else [(each, None) for each in said.citacoes]
    shortfalls = dict(ours.shortfalls) if ours else {}
    none_given = "exemplos" in shortfalls and said.exemplos[0] in NO_EXAMPLES.values()
    return FinishedChapter(
        number=said.numero,
        title=said.titulo,
        words=said.palavras,
        pages=tuple(said.paginas),
        summary=Summary(
            text=said.resumo,
            key_points=tuple(said.pontos_chave),
            quotations=tuple(Quotation(text=text, page=page) for text, page in quoted),
            examples=() if none_given else tuple(said.exemplos),
            shortfalls={str(name): why for name, why in shortfalls.items()},
        ),
        passed=checkpoint.passed,
        percentage=checkpoint.coverage_report.chunk_coverage_percentage,
        reasons=reasons(checkpoint),
    )
