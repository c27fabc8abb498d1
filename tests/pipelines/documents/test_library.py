"""The library: one document per content, its state that of its job, processed again without doubling, removed whole."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from shelf import LEASE, RECIPE, Embedding, Reading, pieces, sent

from retoma import Retoma
from retoma.bench.evaluation import samples
from retoma.errors import ConfigurationError, NotFound
from retoma.pipelines.documents.library import Documents
from retoma.pipelines.documents.pipeline import process
from retoma.pipelines.files.ingest import FileRefused, StoreDown
from retoma.testing import drain


def counts(psql: psycopg.Connection) -> dict[str, int]:
    tables = ("documents", "document_fields", "document_chunks", "jobs", "loose_blobs")
    return {
        name: psql.execute(f"select count(*) from retoma.{name}").fetchone()[0]  # type: ignore[index]
        for name in tables
    }


def files_in(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


async def hurry(psql: psycopg.Connection) -> None:
    """Let the wait between two attempts be over."""
    psql.execute("update retoma.jobs set run_at = now() where state = 'queued'")


async def failed(library: Documents, app: Retoma, embedder: Embedding, psql: psycopg.Connection):
    """A document whose embedding failed three times."""
    id = await sent(library, LEASE)
    embedder.fails = 3
    for _ in range(3):
        await drain(app)
        await hurry(psql)
    return id


class TestReceive:
    async def test_many_at_once_become_a_document_and_a_job_each_with_the_request_it_came_with(
        self, library: Documents, app: Retoma, psql: psycopg.Connection
    ) -> None:
        contents = [f"papel {number % 30}".encode() for number in range(40)]  # ten are there twice

        received = await asyncio.gather(
            *(
                library.receive(f"{number}.txt", pieces(content), correlation_id=f"c-{number}")
                for number, content in enumerate(contents)
            )
        )

        assert len([each for each in received if each.duplicate_of]) == 10
        assert counts(psql) | {"document_fields": 0} == {
            "documents": 30, "document_fields": 0, "document_chunks": 0, "jobs": 30, "loose_blobs": 0,
        }  # fmt: skip
        for each in received:
            job = await app.jobs.get(each.document.job_id or 0)
            assert job.key == f"document:{each.document.id}"
            assert job.correlation_id == each.document.correlation_id

    async def test_a_document_and_its_job_are_there_together(
        self, library: Documents, app: Retoma, psql: psycopg.Connection
    ) -> None:
        received = await library.receive(
            "../contrato.pdf", pieces(samples.pdf(LEASE)), uploaded_by="ana", correlation_id="c-1"
        )

        document = received.document
        job = await app.jobs.get(document.job_id or 0)
        assert received.duplicate_of is None
        assert (document.filename, document.kind, document.status) == ("contrato.pdf", "pdf", "PENDING")
        assert (document.uploaded_by, document.correlation_id, document.attempts) == ("ana", "c-1", 0)
        assert (job.key, job.queue, job.correlation_id) == (f"document:{document.id}", "documents", "c-1")
        assert counts(psql) == {
            "documents": 1, "document_fields": 0, "document_chunks": 0, "jobs": 1, "loose_blobs": 0,
        }  # fmt: skip

    async def test_a_document_is_read_cut_embedded_and_stored(self, library: Documents, app: Retoma) -> None:
        id = await sent(library, samples.pdf(LEASE), "contrato.pdf")

        assert await drain(app) == 1

        document = await library.get(id)
        assert (document.status, document.page_count, document.attempts) == ("COMPLETED", 1, 1)
        assert [chunk.section_type for chunk in await library.chunks(id)] == ["texto_geral", "cláusula", "cláusula"]
        assert [field.value for field in await library.fields(id)] == ["Maria da Silva", "João Souza", "R$ 1.200,00"]
        async with library.open(id) as (same, content):
            assert same.id == id
            assert b"".join([piece async for piece in content]) == samples.pdf(LEASE)

    async def test_equal_content_is_one_document_whoever_sends_it_and_whatever_its_name(
        self, library: Documents, folder: Path, psql: psycopg.Connection
    ) -> None:
        first = await library.receive("a.txt", pieces(LEASE.encode()))

        second = await library.receive("b.txt", pieces(LEASE.encode()), uploaded_by="rui")

        assert second.duplicate_of == first.document.id
        assert second.document == first.document
        assert counts(psql)["jobs"] == counts(psql)["documents"] == files_in(folder) == 1
        assert counts(psql)["loose_blobs"] == 0

    async def test_equal_uploads_at_once_give_one_document(
        self, library: Documents, folder: Path, psql: psycopg.Connection
    ) -> None:
        received = await asyncio.gather(*(library.receive(f"{n}.txt", pieces(LEASE.encode())) for n in range(8)))

        assert len({each.document.id for each in received}) == 1
        assert [each.duplicate_of for each in received].count(None) == 1
        assert (counts(psql)["documents"], counts(psql)["jobs"], files_in(folder)) == (1, 1, 1)
        assert counts(psql)["loose_blobs"] == 0

    async def test_two_files_of_one_name_are_two_documents(self, library: Documents, folder: Path) -> None:
        first, second = await sent(library, LEASE, "contrato.txt"), await sent(library, RECIPE, "contrato.txt")

        assert first != second
        assert files_in(folder) == 2

    async def test_a_refused_file_leaves_nothing(
        self, library: Documents, folder: Path, psql: psycopg.Connection
    ) -> None:
        with pytest.raises(FileRefused):
            await library.receive("vazio.pdf", pieces(b""))

        assert set(counts(psql).values()) == {0}
        assert files_in(folder) == 0

    async def test_a_kill_between_the_blob_and_the_row_loses_nothing_and_is_swept(
        self, library: Documents, folder: Path, psql: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def killed(*_: object, **__: object) -> None:
            raise KeyboardInterrupt  # nothing of ours runs after it, as after a kill

        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(library._arriving, "receive", killed)
            await library.receive("a.txt", pieces(LEASE.encode()))

        assert (files_in(folder), counts(psql)["loose_blobs"], counts(psql)["documents"]) == (1, 1, 0)
        assert (await library.receive("a.txt", pieces(LEASE.encode()))).duplicate_of is None
        psql.execute("update retoma.loose_blobs set since = now() - interval '25 hours'")
        assert await library.files.sweep(timedelta(days=1)) == 1
        assert (files_in(folder), counts(psql)["loose_blobs"], counts(psql)["documents"]) == (1, 0, 1)

    async def test_a_blob_that_was_swept_during_its_upload_makes_no_document(
        self, library: Documents, psql: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        take = library.files.take

        async def slow(*args: object, **kwargs: object) -> object:
            file = await take(*args, **kwargs)
            psql.execute("update retoma.loose_blobs set since = now() - interval '25 hours'")
            await library.files.sweep(timedelta(days=1))
            return file

        monkeypatch.setattr(library.files, "take", slow)

        with pytest.raises(StoreDown, match="swept away"):
            await library.receive("a.txt", pieces(LEASE.encode()))
        assert counts(psql)["documents"] == counts(psql)["jobs"] == 0


class TestLooking:
    async def test_the_newest_come_first_page_by_page_and_names_are_searched_as_they_are_written(
        self, library: Documents
    ) -> None:
        names = ["um.txt", "dois_100%.txt", "Três.txt", "quatro.txt"]
        ids = [await sent(library, f"Texto {name}", name) for name in names]

        first = await library.page(limit=3)
        rest = await library.page(limit=3, before=first[-1].number)

        assert [document.id for document in (*first, *rest)] == ids[::-1]
        assert [document.filename for document in await library.page(search="TRÊS")] == ["Três.txt"]
        assert [document.filename for document in await library.page(search="_100%")] == ["dois_100%.txt"]
        assert await library.page(search="%s%") == []

    async def test_documents_are_listed_by_status(self, library: Documents, app: Retoma) -> None:
        done = await sent(library, LEASE)
        await drain(app)
        waits = await sent(library, RECIPE, "bolo.txt")

        assert [document.id for document in await library.page(status="COMPLETED")] == [done]
        assert [document.id for document in await library.page(status="PENDING")] == [waits]
        assert await library.page(status="FAILED") == []
        assert [each.document_id for each in await library.statuses([waits, uuid4(), done])] == [waits, done]

    async def test_what_is_not_there_is_said_so(self, library: Documents) -> None:
        for ask in (library.get, library.status, library.reprocess):
            with pytest.raises(NotFound, match="no document"):
                await ask(uuid4())
        with pytest.raises(ConfigurationError, match="no status"):
            await library.page(status="DONE")

    @pytest.mark.parametrize(
        ("state", "status"),
        [
            ("queued", "PENDING"),
            ("running", "PROCESSING"),
            ("completed", "COMPLETED"),
            ("skipped", "COMPLETED"),
            ("failed", "FAILED"),
            ("cancelled", "FAILED"),
            ("review", "FAILED"),
        ],
    )
    async def test_the_state_of_the_job_is_the_state_of_the_document(
        self, library: Documents, psql: psycopg.Connection, state: str, status: str
    ) -> None:
        id = await sent(library, LEASE)
        ended = state not in ("queued", "running")
        psql.execute(
            "update retoma.jobs set state = %s, worker_id = %s, finished_at = %s, reason = 'why', attempt = 1,"
            " claimed_at = now()",
            [state, 1 if state == "running" else None, "now" if ended else None],
        )

        now = await library.status(id)

        assert (now.status, now.attempts, (await library.get(id)).status) == (status, 1, status)
        assert now.error_log == ("why" if status == "FAILED" else None)
        assert (now.started_at is not None, now.completed_at is not None) == (True, ended)

    async def test_when_the_job_was_pruned_the_document_still_knows(
        self, library: Documents, app: Retoma, psql: psycopg.Connection
    ) -> None:
        done, broken = await sent(library, LEASE), await sent(library, b"<html><script>x()</script></html>", "a.html")
        await drain(app)
        psql.execute("update retoma.jobs set finished_at = now() - interval '400 days'")
        await app.system.prune()

        assert psql.execute("select count(*) from retoma.jobs").fetchone() == (0,)
        now, lost = await library.status(done), await library.status(broken)
        assert (now.status, now.attempts, now.error_log) == ("COMPLETED", 1, None)
        assert now.completed_at is not None
        assert lost.status == "FAILED"
        assert "pruned" in (lost.error_log or "")


class TestReprocess:
    async def test_a_failed_embedding_is_not_a_completed_document_and_its_reading_is_not_repeated(
        self, library: Documents, app: Retoma, embedder: Embedding, extractor: Reading, psql: psycopg.Connection
    ) -> None:
        id = await failed(library, app, embedder, psql)
        before = await library.status(id)

        again = await library.reprocess(id)
        await drain(app)

        after = await library.status(id)
        assert (before.status, before.attempts) == ("FAILED", 3)
        assert before.error_log == "ProviderDown: The embedder broke off."
        assert (again.status, again.error_log) == ("PENDING", None)
        assert (after.status, after.error_log) == ("COMPLETED", None)
        assert len(extractor.read) == 1
        assert len(await library.chunks(id)) == 3

    async def test_between_two_attempts_it_waits_and_says_why(
        self, library: Documents, app: Retoma, embedder: Embedding
    ) -> None:
        id = await sent(library, LEASE)
        embedder.fails = 1

        await drain(app)

        now = await library.status(id)
        assert (now.status, now.attempts) == ("PENDING", 1)
        assert now.error_log == "ProviderDown: The embedder broke off."

    async def test_a_completed_document_is_done_anew_and_nothing_doubles(
        self, library: Documents, app: Retoma, extractor: Reading, psql: psycopg.Connection
    ) -> None:
        id = await sent(library, LEASE)
        await drain(app)
        before = counts(psql)

        assert (await library.reprocess(id)).status == "PENDING"
        assert len(await library.chunks(id)) == 3  # what was there is found until the new is stored
        await drain(app)

        assert (await library.status(id)).status == "COMPLETED"
        assert counts(psql) == before
        assert len(extractor.read) == 2

    async def test_asked_many_times_at_once_it_is_done_once(
        self, library: Documents, app: Retoma, extractor: Reading, psql: psycopg.Connection
    ) -> None:
        id = await sent(library, LEASE)
        await drain(app)

        answers = await asyncio.gather(*(library.reprocess(id) for _ in range(6)))
        ended = await drain(app)

        assert {each.status for each in answers} == {"PENDING"}
        assert (ended, len(extractor.read), counts(psql)["jobs"]) == (1, 2, 1)

    async def test_what_waits_stays_as_it_is(self, library: Documents, psql: psycopg.Connection) -> None:
        id = await sent(library, LEASE)

        assert (await library.reprocess(id)).status == "PENDING"
        assert counts(psql)["jobs"] == 1

    async def test_a_document_whose_job_was_pruned_gets_a_new_one(
        self, library: Documents, app: Retoma, psql: psycopg.Connection
    ) -> None:
        id = await sent(library, LEASE)
        await drain(app)
        psql.execute("update retoma.jobs set finished_at = now() - interval '400 days'")
        await app.system.prune()

        answers = await asyncio.gather(*(library.reprocess(id) for _ in range(4)))
        await drain(app)

        assert {each.status for each in answers} == {"PENDING"}
        assert (counts(psql)["jobs"], (await library.status(id)).status) == (1, "COMPLETED")
        assert len(await library.chunks(id)) == 3


class TestRemove:
    async def test_all_of_it_goes(
        self, library: Documents, app: Retoma, folder: Path, psql: psycopg.Connection
    ) -> None:
        id = await sent(library, LEASE)
        await drain(app)

        assert await library.remove(id) is True

        assert counts(psql) == {
            "documents": 0, "document_fields": 0, "document_chunks": 0, "jobs": 1, "loose_blobs": 0,
        }  # fmt: skip
        assert files_in(folder) == 0
        assert await library.remove(id) is False
        assert (await library.receive("outra.txt", pieces(LEASE.encode()))).duplicate_of is None

    async def test_a_waiting_job_is_cancelled_with_it(self, library: Documents, app: Retoma) -> None:
        id = await sent(library, LEASE)
        job_id = (await library.get(id)).job_id or 0

        await library.remove(id)

        job = await app.jobs.get(job_id)
        assert (job.state, job.reason) == ("cancelled", "the document was removed")

    async def test_a_kill_after_the_row_is_gone_leaves_the_file_to_the_sweep(
        self, library: Documents, folder: Path, psql: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        id = await sent(library, LEASE)

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(library.files, "drop", killed)
            await library.remove(id)

        assert (counts(psql)["documents"], files_in(folder), counts(psql)["loose_blobs"]) == (0, 1, 1)
        psql.execute("update retoma.loose_blobs set since = now() - interval '25 hours'")
        await library.files.sweep()
        assert (files_in(folder), counts(psql)["loose_blobs"]) == (0, 0)


async def test_the_pipeline_is_as_patient_as_it_is_said_to_be() -> None:
    assert (process.queue, process.timeout) == ("documents", 120.0)
    assert (process.retry.attempts, process.retry.wait, process.retry.factor) == (3, 5.0, 2.0)
