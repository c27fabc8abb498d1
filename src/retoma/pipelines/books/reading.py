"""What a reader gets of a book: its valid checkpoints as one value, with why a chapter did not pass."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from retoma.pipelines.books.contract import NO_EXAMPLES, Checkpoint
from retoma.pipelines.books.model import Session
from retoma.pipelines.books.ports import LeftOut, Quotation, Summary
from retoma.pipelines.books.remarks import Remark, all_said, remark
from retoma.pipelines.books.text.finished import FinishedBook, FinishedChapter
from retoma.pipelines.books.text.language import language_of

_NAMED = 5
"""Items that one sentence names."""


def book_of(session: Session, results: Mapping[str, Checkpoint], *, site: str = "") -> FinishedBook:
    """*session* with what was made of its chapters, in their order; its pages open at *site*, where that is known."""
    left_out = (LeftOut(**{**each, "pages": tuple(each["pages"])}) for each in json.loads(session.left_out))
    language = language_of(" ".join(each.chapter_summary.resumo for each in results.values()))
    return FinishedBook(
        session=session.id,
        title=session.title,
        language=language,
        chapters=tuple(_chapter(each, language) for each in results.values()),
        finished_at=session.finished_at or datetime.now(UTC),
        left_out=tuple(left_out),
        pages=session.pages or 0,
        page_address=f"{site}/books/{quote(session.id, safe='')}/text/{{chapter}}#page-{{page}}" if site else "",
    )


def reasons(checkpoint: Checkpoint) -> tuple[Remark, ...]:
    """Why a chapter did not pass; nothing when it did."""
    if checkpoint.passed:
        return ()
    found = (*_read(checkpoint), *_missing(checkpoint), *_audited(checkpoint))
    return found or (remark("audit"),)


def _read(checkpoint: Checkpoint) -> Iterator[Remark]:
    coverage, ours = checkpoint.coverage_report, checkpoint.retoma
    if unread := coverage.total_chunks - coverage.processed_chunks:
        yield remark("chunks", n=unread, total=coverage.total_chunks)
    if ours is not None and ours.read_sentences < ours.sentences:
        yield remark("sentences", n=ours.sentences - ours.read_sentences, total=ours.sentences)


def _missing(checkpoint: Checkpoint) -> Iterator[Remark]:
    texts = _items(checkpoint)
    if missing := checkpoint.coverage_report.recall_set.missing_critical_item_ids:
        named = "; ".join(texts.get(each, each) for each in missing[:_NAMED])
        yield remark("critical", n=len(missing), items=named)


def _audited(checkpoint: Checkpoint) -> Iterator[Remark]:
    """What the audit found besides; items are called by their text and not by their id."""
    result, ours = checkpoint.coverage_report.audit_result, checkpoint.retoma
    missing = set(checkpoint.coverage_report.recall_set.missing_critical_item_ids)
    texts = _items(checkpoint)
    found = [] if ours is None else [Remark(each.code, each.values) for each in ours.errors]
    told = {each.code for each in found}
    if "item_unmarked" not in told:
        found += [remark("item_unmarked", item=id) for id in result.missing_markers]
    if result.invalid_chunks and not told & {"mark_foreign", "mark_bare"}:
        named = ", ".join(each.item_id for each in result.invalid_chunks[:_NAMED])
        yield remark("traces", n=len(result.invalid_chunks), items=named)
    for each in found:
        item = str(each.values.get("item", ""))
        if each.code != "item_unmarked" or item not in missing:
            yield Remark(each.code, {**each.values, "item": f"“{texts[item]}”"}) if item in texts else each


def _items(checkpoint: Checkpoint) -> dict[str, str]:
    return {} if checkpoint.retoma is None else {each.id: each.text for each in checkpoint.retoma.items}


def summary_of(checkpoint: Checkpoint) -> Summary:
    """The summary of a checkpoint; a sentence that stands for missing examples is no example."""
    said, ours = checkpoint.chapter_summary, checkpoint.retoma
    quoted = [(each.text, each.page) for each in ours.quotations] if ours else [(each, None) for each in said.citacoes]
    shortfalls = {} if ours is None else {str(name): why for name, why in ours.shortfalls.items()}
    none_given = "exemplos" in shortfalls and said.exemplos[0] in NO_EXAMPLES.values()
    return Summary(
        text=said.resumo,
        key_points=tuple(said.pontos_chave),
        quotations=tuple(Quotation(text=text, page=page) for text, page in quoted),
        examples=() if none_given else tuple(said.exemplos),
        shortfalls=shortfalls,
    )


def _chapter(checkpoint: Checkpoint, language: str) -> FinishedChapter:
    said = checkpoint.chapter_summary
    return FinishedChapter(
        number=said.numero,
        title=said.titulo,
        words=said.palavras,
        pages=tuple(said.paginas),
        summary=summary_of(checkpoint),
        passed=checkpoint.passed,
        percentage=checkpoint.coverage_report.chunk_coverage_percentage,
        reasons=tuple(all_said(reasons(checkpoint), language)),
    )
