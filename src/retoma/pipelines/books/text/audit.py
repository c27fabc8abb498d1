"""Whether a summary keeps what it promises, counted again from the text, without a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from retoma.pipelines.books.ports import Audit, Chapter, RecallItem, Summary
from retoma.pipelines.books.remarks import Remark, remark
from retoma.pipelines.books.text import markers
from retoma.pipelines.books.text.sentences import flat, page_at

WORDS, KEY_POINTS, QUOTATIONS, EXAMPLES = (300, 500), (5, 8), (2, 4), (2, 5)
MOST_REGENERATIONS, MOST_ADDENDUMS = 5, 2


def audit(
    chapter: Chapter,
    summary: Summary,
    marked: str,
    items: Sequence[RecallItem],
    *,
    regenerations: int = 0,
    addendums: int = 0,
) -> Audit:
    """What is wrong with *summary*, whose text with its marks is *marked*.

    Every critical item has a mark, every mark names an item of this chapter and only chunks of it, and speaks of it;
    quotations stand in the chapter, on the page that they say; counts are those of the contract, or the summary says
    why the source allows no more.
    """
    known = {item.id: item for item in items}
    missing = markers.missing(marked, items)
    wrong: dict[str, tuple[int, ...]] = {}
    errors = [remark("item_unmarked", item=id) for id in missing]
    for marker in markers.read(marked):
        item = known.get(marker.id)
        if item is None:
            errors.append(remark("mark_unknown", item=marker.id))
        elif foreign := tuple(chunk for chunk in marker.chunks if chunk not in item.chunks):
            wrong[item.id] = foreign
            errors.append(remark("mark_foreign", item=item.id, chunks=", ".join(map(str, foreign))))
        elif not marker.chunks:
            wrong[item.id] = ()
            errors.append(remark("mark_bare", item=item.id))
        elif not markers.speaks_of(marker.said, item):
            errors.append(remark("mark_off", item=item.id))
    if markers.unmarked(marked) != summary.text:
        errors.append(remark("text_changed"))
    errors += _counts(summary)
    errors += _quotations(chapter, summary)
    if regenerations > MOST_REGENERATIONS or addendums > MOST_ADDENDUMS:
        errors.append(remark("tries", regenerations=regenerations, addendums=addendums))
    return Audit(
        passed=not errors,
        regenerations=regenerations,
        addendums=addendums,
        missing_markers=missing,
        invalid_chunks=tuple(wrong.items()),
        errors=tuple(errors),
    )


def covered(items: Sequence[RecallItem], marked: str) -> tuple[RecallItem, ...]:
    """*items*, each with the word whether a mark with its chunks stands at a sentence that speaks of it."""
    said: dict[str, bool] = {}
    known = {item.id: item for item in items}
    for marker in markers.read(marked):
        item = known.get(marker.id)
        if item is not None and marker.chunks and set(marker.chunks) <= set(item.chunks):
            said[item.id] = said.get(item.id, False) or markers.speaks_of(marker.said, item)
    return tuple(replace(item, covered=said.get(item.id, False)) for item in items)


def _counts(summary: Summary) -> Iterator[Remark]:
    for field, code, count, (least, most) in (
        ("resumo", "words", len(summary.text.split()), WORDS),
        ("pontos_chave", "key_points", len(summary.key_points), KEY_POINTS),
        ("citacoes", "quotations", len(summary.quotations), QUOTATIONS),
        ("exemplos", "examples", len(summary.examples), EXAMPLES),
    ):
        if count > most or (count < least and not summary.shortfalls.get(field)):
            yield remark(code, n=count, least=least, most=most)
    texts = (*summary.key_points, *summary.examples, *(each.text for each in summary.quotations))
    if not summary.text.strip() or not all(each.strip() for each in texts):
        yield remark("empty")
    if len(set(summary.key_points)) < len(summary.key_points):
        yield remark("point_twice")


def _quotations(chapter: Chapter, summary: Summary) -> Iterator[Remark]:
    source = flat(chapter.text)
    for quotation in summary.quotations:
        if not quotation.text.strip() or flat(quotation.text) not in source:
            yield remark("quotation_absent", text=quotation.text[:60])
        elif quotation.page not in pages_of(chapter, quotation.text):
            if quotation.page is None:
                yield remark("quotation_pageless", text=quotation.text[:60])
            else:
                yield remark("quotation_page", page=quotation.page, text=quotation.text[:60])


def pages_of(chapter: Chapter, text: str) -> set[int | None]:
    """Every page on which *text* begins in *chapter*; line ends do not count."""
    words = text.split()
    found: set[int | None] = set()
    place = chapter.text.find(words[0]) if words else -1
    target = flat(text)
    while place >= 0:
        if flat(chapter.text[place : place + 3 * len(target) + 200]).startswith(target):
            found.add(page_at(chapter, place))
        place = chapter.text.find(words[0], place + 1)
    return found
