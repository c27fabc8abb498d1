"""The blocks of results.sql."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from retoma.model.batch import Batch
from retoma.pipelines.classification import results
from retoma.pipelines.classification.library import Classification

FOUND: dict[str, Any] = {
    "settings_hash": "h",
    "category": "ata",
    "subcategory": None,
    "confidence": "alta",
    "score": 0.9,
    "margin": 0.8,
    "justification": "because",
    "quote": "ata",
    "case_number": "0001",
    "text_source": "txt",
    "text_tokens": 30,
    "tokens": 20,
    "chunk_used": "…",
    "answer": '{"categoria": "ata"}',
}


@pytest.fixture
async def batch(library: Classification, project: Callable[..., Any]) -> Batch:
    return await library.start(await project())


async def jobs(library: Classification, batch: Batch) -> list[int]:
    return [each.job_id for each in await library.results(batch.id)]


class TestBegin:
    async def test_every_document_has_its_row_before_it_is_worked_on_and_only_one(
        self, library: Classification, batch: Batch
    ) -> None:
        rows = await library.results(batch.id)

        assert [(each.code, each.state, each.category, each.attempts) for each in rows] == [
            ("ata.txt", "queued", None, 0),
            ("contrato.txt", "queued", None, 0),
        ]
        with pytest.raises(psycopg.errors.UniqueViolation, match="one_result_per_document_and_execution"):
            await library.app.fetch(results.begin(batch.id, [(rows[0].document_id, 404)]))


class TestSave:
    async def test_tokens_and_cost_are_those_of_its_own_calls(
        self, library: Classification, batch: Batch, psql: psycopg.Connection
    ) -> None:
        first, second = await jobs(library, batch)
        psql.execute(
            "insert into retoma.calls (key, provider, model, job_id, state, request, answer, text, cost, input_tokens,"
            " output_tokens, answered_at) values ('k', 'p', 'm', %s, 'answered', '{}', '{}', '', 0.5, 100, 11, now())",
            [first],
        )

        for job in (first, second):
            await library.app.fetch(results.save(job, FOUND))
        one, other = await library.results(batch.id)

        assert (one.tokens, float(one.cost or 0), one.case_number) == (111, 0.5, "0001")
        assert (other.tokens, other.cost, other.answer) == (20, 0, {"categoria": "ata"})
        assert await library.app.fetch(results.save(404, FOUND)) == []


class TestGiven:
    async def test_a_job_has_the_document_the_content_and_the_blob_of_its_row_or_nothing(
        self, library: Classification, batch: Batch, psql: psycopg.Connection
    ) -> None:
        assert len(await jobs(library, batch)) == 2
        sql = (
            "select result.job_id, result.document_id, result.sha256, document.blob"
            " from retoma.classifications as result"
            " join retoma.project_documents as document on document.id = result.document_id order by result.job_id"
        )
        (job, document, sha, blob), (_, other, *_) = psql.execute(sql).fetchall()

        async def given(job_id: int, document_id: int, sha: str | None, blob: str | None) -> bool:
            return bool(await library.app.fetch(results.given(job_id, document_id, sha=sha, blob=blob)))

        assert await given(job, document, sha, blob)
        assert await given(job, document, sha, None)
        assert not await given(job, other, sha, blob)
        assert not await given(job, document, "0" * 64, blob)
        assert not await given(job, document, sha, "another")
        assert not await given(404, document, sha, blob)


class TestCopyKnown:
    async def test_the_same_content_with_the_same_settings_is_taken_over_once(
        self, library: Classification, batch: Batch
    ) -> None:
        (first, _), settings = await jobs(library, batch), batch.configuration["hash"]
        await library.app.fetch(results.save(first, {**FOUND, "settings_hash": settings}))
        later = await library.start(int(batch.labels["project"]))
        same, other = await jobs(library, later)

        assert await library.app.fetch(results.copy_known(same, settings)) == [batch.id]
        assert await library.app.fetch(results.copy_known(same, settings)) == [], "it has its result now"
        assert await library.app.fetch(results.copy_known(other, settings)) == [], "nobody has classified that one"
        (copied, _), (original, _) = await library.results(later.id), await library.results(batch.id)
        assert (copied.category, copied.copied_from, copied.cost) == ("ata", original.id, 0)

    async def test_other_settings_find_for_themselves(self, library: Classification, batch: Batch) -> None:
        (first, _), id = await jobs(library, batch), int(batch.labels["project"])
        await library.app.fetch(results.save(first, {**FOUND, "settings_hash": batch.configuration["hash"]}))
        await library.change_project(id, mode="chunk", chunk_tokens=100)
        later = await library.start(id)

        assert (
            await library.app.fetch(results.copy_known((await jobs(library, later))[0], later.configuration["hash"]))
            == []
        )


class TestPage:
    async def test_the_last_error_is_told_while_it_matters(
        self, library: Classification, batch: Batch, psql: psycopg.Connection
    ) -> None:
        first, second = await jobs(library, batch)
        for fence, error in ((1, "old"), (2, "ValueError: new\n\nTraceback")):
            psql.execute(
                "insert into retoma.attempts (job_id, fence, attempt, worker_id, ending, error, claimed_at)"
                " values (%s, %s, %s, 1, 'failed', %s, now())",
                [first, fence, fence, error],
            )

        tried, fresh = await library.results(batch.id)
        psql.execute("update retoma.jobs set state = 'completed', finished_at = now() where id = %s", [first])
        done, _ = await library.results(batch.id)

        assert (tried.said, tried.stack, tried.failed_at is not None) == ("ValueError: new", "Traceback", True)
        assert (fresh.error, fresh.failed_at) == (None, None)
        assert (done.error, done.failed_at) == (None, None)
        assert [each.job_id for each in await library.app.fetch(results.page(batch.id, jobs=[second]))] == [second]
        assert await library.app.fetch(results.page(batch.id, states=["failed"])) == []


class TestMosaic:
    async def test_one_letter_per_document(
        self, library: Classification, batch: Batch, psql: psycopg.Connection
    ) -> None:
        psql.execute("update retoma.jobs set state = 'failed', finished_at = now() where key = 'contrato.txt'")

        assert await library.mosaic(batch.id) == "qf"


class TestCategories:
    async def test_how_many_of_each_and_how_sure(self, library: Classification, batch: Batch) -> None:
        for job, sure in zip(await jobs(library, batch), ("alta", "baixa"), strict=True):
            await library.app.fetch(results.save(job, {**FOUND, "confidence": sure}))

        assert await library.categories(batch.id) == [("ata", "alta", 1), ("ata", "baixa", 1)]
