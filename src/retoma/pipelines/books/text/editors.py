"""Who sums up chapters: the sentences of the chapter itself, or a model that is audited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from retoma.pipelines.books.ports import Ask, Chapter, ChapterPlan, Digest, Quotation, RecallItem, Summary
from retoma.pipelines.books.remarks import all_said
from retoma.pipelines.books.text import audit, chunks, plan, prompts, recall
from retoma.pipelines.books.text.markers import missing, unmarked
from retoma.pipelines.books.text.prompts import Addendum, Draft, Reading
from retoma.pipelines.books.text.sentences import flat
from retoma.pipelines.books.text.summary import Source, Written, digest, shortfalls, write
from retoma.providers import Extraction, RequestRejected, Usage
from retoma.providers.local.encoder import Encoder, best_encoder
from retoma.providers.local.threads import beside

_PARAMETERS = {"detector": plan.VERSION, "chunk_words": chunks.WORDS, "overlap_words": chunks.OVERLAP}


class LocalEditor:
    """Chapters in their own sentences: no key, no network, the same on every run."""

    provider = "local"
    bills = False

    def __init__(self, encoder: Encoder | None = None) -> None:
        self._encoder = encoder or best_encoder()
        self.model = f"{self._encoder.model}+lexrank"
        self.parameters: Mapping[str, Any] = {**_PARAMETERS, "summary": 2}

    def detect(self, document: Extraction) -> ChapterPlan:
        """The chapters of *document*."""
        return plan.detect(document)

    async def summarise(self, chapter: Chapter, *, ask: Ask | None, timeout: float) -> Digest:
        """The summary of *chapter*, made in a thread so that the loop goes on."""
        del ask

        def work(_: object) -> Digest:
            source = _source(chapter, self._encoder)
            return digest(source, write(source), {chunk.index: chunk.text for chunk in source.chunks})

        return await beside(work, timeout=timeout, what=f"To sum up chapter {chapter.number}")


class ModelEditor:
    """Chapters in the words of a model: every chunk is read, readings are merged, the summary is audited.

    A summary that fails its audit is written again, up to 5 times; then items that it misses are added, up to 2 times.
    What the audit demands comes from the text of the chapter and not from the model.
    """

    bills = True

    def __init__(self, provider: str, model: str, encoder: Encoder | None = None) -> None:
        self.provider, self.model = provider, model
        self._encoder = encoder or best_encoder()
        self.parameters: Mapping[str, Any] = {
            **_PARAMETERS,
            "prompts": prompts.VERSION,
            "recall": f"{self._encoder.model}+{recall.VERSION}",
        }

    def detect(self, document: Extraction) -> ChapterPlan:
        """The chapters of *document*; no model is asked."""
        return plan.detect(document)

    def expected(self, words: int) -> Usage:
        """About what the requests for a chapter with so many *words* use, when its first summary passes."""
        return prompts.expected(words)

    async def summarise(self, chapter: Chapter, *, ask: Ask | None, timeout: float) -> Digest:
        """The summary of *chapter*; each request has a name that is the same on every run."""
        if ask is None:
            raise RequestRejected(
                "A model writes the summary, and there is nobody to ask it.",
                next="Provide a Chat, or use the local editor.",
                provider=self.provider,
                paid=False,
            )
        source = await beside(
            lambda _: _source(chapter, self._encoder), timeout=timeout, what=f"To read chapter {chapter.number}"
        )
        read: dict[int, str] = {}
        readings: list[Reading] = []
        for chunk in source.chunks:
            readings.append(await ask(f"read {chunk.index}", prompts.reading(chapter, chunk), Reading))
            read[chunk.index] = chunk.text
        return await self._written(source, read, await self._merged(chapter, readings, ask), ask)

    async def _merged(self, chapter: Chapter, readings: Sequence[Reading], ask: Ask) -> Sequence[Reading]:
        level = 0
        while len(readings) > prompts.GROUP:
            level += 1
            readings = [
                await ask(f"merge {level}.{place}", prompts.merging(chapter, group), Reading)
                for place, group in enumerate(prompts.groups(readings), start=1)
            ]
        return readings

    async def _written(self, source: Source, read: Mapping[int, str], readings: Sequence[Reading], ask: Ask) -> Digest:
        chapter = source.chapter
        errors: Sequence[str] = ()
        found: Digest | None = None
        written: Written | None = None
        again = 0
        for again in range(audit.MOST_REGENERATIONS + 1):
            prompt = prompts.writing(chapter, readings, source.items, errors)
            written = checked(source, await ask(f"write {again}", prompt, Draft))
            found = digest(source, written, read, regenerations=again)
            if found.passed:
                return found
            errors = all_said(found.audit.errors, "en")  # the language of every prompt
        assert written is not None
        assert found is not None
        for added in range(1, audit.MOST_ADDENDUMS + 1):
            lacking = [item for item in source.items if item.id in missing(written.marked, source.items)]
            if not lacking:
                break
            told = await ask(f"add {added}", prompts.adding(chapter, lacking), Addendum)
            written = with_addendum(written, lacking, told)
            found = digest(source, written, read, regenerations=again, addendums=added)
            if found.passed:
                break
        return found


def checked(source: Source, draft: Draft) -> Written:
    """The summary that a model wrote; quotations that do not stand in the chapter give way to some that do."""
    own = write(source)
    text = flat(source.chapter.text)
    quoted = [
        Quotation(text=flat(each), page=min(pages, key=lambda page: page or 0))
        for each in dict.fromkeys(draft.quotations)
        if each.strip() and flat(each) in text and (pages := audit.pages_of(source.chapter, each))
    ]
    for other in own.summary.quotations:
        if len(quoted) < audit.QUOTATIONS[0] and other not in quoted:
            quoted.append(other)
    marked = draft.summary.strip()
    plain = unmarked(marked)
    points = [flat(each) for each in draft.key_points if each.strip()]
    given = [flat(each) for each in draft.examples if each.strip()]
    told = shortfalls(source, len(plain.split()), len(points), len(quoted), len(given))
    excused = {field: why for field, why in told.items() if field == "exemplos" or field in own.summary.shortfalls}
    summary = Summary(
        text=plain,
        key_points=tuple(points),
        quotations=tuple(quoted[: audit.QUOTATIONS[1]]),
        examples=tuple(given),
        shortfalls=excused,
    )
    return Written(summary, marked, source.items)


def with_addendum(written: Written, lacking: Sequence[RecallItem], told: Addendum) -> Written:
    """*written* with a paragraph of sentences for what it lacks; a sentence without such a mark is not taken."""
    wanted = {item.id for item in lacking}
    kept = [each.strip() for each in told.sentences if any(f"⟦{id}:" in each for id in wanted)]
    marked = "\n\n".join([written.marked, " ".join(kept)]) if kept else written.marked
    return replace(written, marked=marked, summary=replace(written.summary, text=unmarked(marked)))


def _source(chapter: Chapter, encoder: Encoder) -> Source:
    source = Source.of(chapter, encoder)
    if not source.sentences:
        raise RequestRejected(
            f"Chapter {chapter.number} has no word in it, so there is nothing to summarise.",
            next="Was the document read right? Scanned pages need OCR.",
            provider="local",
            paid=False,
        )
    return source
