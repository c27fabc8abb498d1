"""The pipeline: each stage once, a failure with its reason, never a completed document without text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import bad_files
import psycopg
import pytest
from shelf import LEASE, Embedding, Reading, pieces, sent

from retoma import Retoma, Settings
from retoma.bench.evaluation import samples
from retoma.pipelines.documents.chunking import cut
from retoma.pipelines.documents.library import Documents
from retoma.pipelines.documents.model import NewDocument
from retoma.pipelines.documents.pipeline import GROUP, process
from retoma.providers import BlobStore, Embedder, Extraction, Extractor, Page, RequestRejected
from retoma.providers.azure_documents import AzureExtractor
from retoma.providers.folder import FolderBlobs
from retoma.testing import drain, rehearse
from retoma.testing.wire import Served

SERVICES = Path(__file__).parents[2] / "servers" / "services.py"


async def stored(folder: Path, content: bytes, kind: str = "txt") -> NewDocument:
    blob = uuid4().hex
    await FolderBlobs(folder).put(blob, pieces(content))
    return NewDocument(
        id=uuid4(), filename=f"contrato.{kind}", kind=kind, sha256=hashlib.sha256(content).hexdigest(), blob=blob
    )


class Blank:
    """A reader that finds pages and no text on them, as a service does with a white sheet."""

    provider = "local"

    async def extract(self, *_: object, **__: object) -> Extraction:
        return Extraction(pages=[Page(number=1, text=" \n"), Page(number=2, text="")], reader="blank")


class TestRehearsal:
    async def test_every_stage_has_its_checkpoint_and_a_later_attempt_repeats_none(
        self, folder: Path, embedder: Embedding, extractor: Reading, database_url: str
    ) -> None:
        document = await stored(folder, LEASE.encode())
        providers = {"extractor": extractor, "embedder": embedder, "blobs": FolderBlobs(folder)}
        embedder.fails = 1

        first = await rehearse(process, document, **providers)
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            second = await rehearse(process, document, saved=first.checkpoints, connection=connection, **providers)

        model = embedder.model
        assert (first.ending, first.again, first.done) == ("failed", True, ["extract", "cut", "fields"])
        assert second.restored == ["extract", "cut", "fields"]
        assert second.done == [f"embed/{model}/0"]
        assert len(extractor.read) == 1
        # Nobody has such a document in this database: it was removed meanwhile, and nothing is stored.
        assert (second.ending, second.reason) == ("skipped", "the document was removed while it was processed")

    async def test_the_cut_and_the_fields_are_those_of_the_text(
        self, folder: Path, embedder: Embedding, extractor: Reading
    ) -> None:
        document = await stored(folder, LEASE.encode())

        rehearsed = await rehearse(
            process, document, extractor=extractor, embedder=embedder, blobs=FolderBlobs(folder), connection=object()
        )

        said = rehearsed.checkpoints
        assert [chunk["section_type"] for chunk in said["cut"]] == ["texto_geral", "cláusula", "cláusula"]
        assert [field["name"] for field in said["fields"]] == ["Locador", "Locatário", "Valor"]
        assert [len(vector) for vector in said[f"embed/{embedder.model}/0"]] == [512, 512, 512]

    async def test_a_long_document_is_embedded_in_groups(
        self, folder: Path, embedder: Embedding, extractor: Reading
    ) -> None:
        law = "".join(f"Art. {number}º O número {number} é lei.\n" for number in range(1, 2 * GROUP + 6))
        document = await stored(folder, law.encode())

        await rehearse(
            process, document, extractor=extractor, embedder=embedder, blobs=FolderBlobs(folder), connection=object()
        )

        assert [len(texts) for texts in embedder.asked] == [GROUP, GROUP, 5]

    async def test_vectors_of_an_earlier_model_are_not_mixed_with_those_of_a_later_one(
        self, folder: Path, embedder: Embedding, extractor: Reading
    ) -> None:
        document = await stored(folder, LEASE.encode())
        old = {"embed/another-model/0": [[0.0]]}

        rehearsed = await rehearse(
            process, document, saved=old, extractor=extractor, embedder=embedder, blobs=FolderBlobs(folder),
            connection=object(),
        )  # fmt: skip

        assert f"embed/{embedder.model}/0" in rehearsed.done

    async def test_a_document_without_text_is_an_error(self, folder: Path, embedder: Embedding) -> None:
        document = await stored(folder, LEASE.encode())

        rehearsed = await rehearse(process, document, extractor=Blank(), embedder=embedder, blobs=FolderBlobs(folder))

        assert (rehearsed.ending, rehearsed.reason, rehearsed.again) == ("failed", "rejected", False)
        assert rehearsed.error is not None
        assert rehearsed.error.startswith("no_text: contrato.txt was read by blank")

    async def test_a_request_that_a_provider_rejects_is_not_made_again(self, folder: Path, extractor: Reading) -> None:
        class Strict(Embedding):
            async def embed(self, *_: object, **__: object) -> object:
                raise RequestRejected("Too long.", provider="local", paid=False)

        document = await stored(folder, LEASE.encode())

        rehearsed = await rehearse(process, document, extractor=extractor, embedder=Strict(), blobs=FolderBlobs(folder))

        assert (rehearsed.ending, rehearsed.error, rehearsed.again) == (
            "failed", "provider_refused: Too long.", False,
        )  # fmt: skip


CANNOT = [
    ("docx that laughs", "riso.docx", "markup_refused"),
    ("docx that reaches out of itself", "fuga.docx", "archive_limits"),
    ("html of scripts", "vazio.html", "no_text"),
]


class TestBadDocuments:
    async def test_each_fails_at_once_with_its_reason_and_the_name_it_came_with(
        self, library: Documents, app: Retoma, psql: psycopg.Connection
    ) -> None:
        made = {bad.name: bad.make for bad in bad_files.CORPUS}
        ids = {name: await sent(library, made[which](), name) for which, name, _ in CANNOT}

        await drain(app)

        for _, name, code in CANNOT:
            now = await library.status(ids[name])
            assert (now.status, now.attempts) == ("FAILED", 1), name
            assert now.error_log is not None
            assert now.error_log.startswith(f"{code}: "), now.error_log
            assert (await library.get(ids[name])).blob.rpartition("/")[2] not in now.error_log
        assert psql.execute("select count(*) from retoma.document_chunks").fetchone() == (0,)


@pytest.fixture
def services() -> Iterator[Served]:
    with Served(str(SERVICES)) as served:
        yield served


class TestAzure:
    async def test_a_document_is_read_by_document_intelligence_and_paid_once(
        self, services: Served, settings: Settings, folder: Path, embedder: Embedding, psql: psycopg.Connection
    ) -> None:
        extractor = AzureExtractor(key="a-secret-key", endpoint=services.url, features=["keyValuePairs"], pause=0.01)
        providers = {BlobStore: FolderBlobs(folder), Embedder: embedder, Extractor: extractor}
        async with Retoma(settings=settings, pipelines=[process], providers=providers) as app:
            library = Documents(app)
            id = await sent(library, samples.pdf("Um contrato."), "contrato.pdf")
            await drain(app)
            first = await library.get(id)
            await library.reprocess(id)
            await drain(app)
            document = await library.get(id)
            fields, tables, chunks = await library.fields(id), await library.tables(id), await library.chunks(id)
        await extractor.aclose()

        assert (first.status, first.error) == ("COMPLETED", None)
        assert (document.status, document.page_count, document.reader) == ("COMPLETED", 3, "prebuilt-layout")
        assert ("Locador", "Ana") in [(field.name, field.value) for field in fields]
        assert [table.rows for table in tables] == [[["Valores", ""], ["Aluguel", "1.200,00"]]]
        assert [(chunk.page_start, chunk.page_end) for chunk in chunks] == [(1, 2)]
        assert len([each for each in services.heard() if ":analyze" in each["path"]]) == 1
        calls = psql.execute("select state, reused, units, request_id like '%/analyzeResults/%' from retoma.calls")
        assert calls.fetchall() == [("answered", 1, 3, True)]


def test_a_cut_is_the_same_every_time() -> None:
    extraction = Extraction(pages=[Page(number=1, text=LEASE)], reader="test")

    assert cut(extraction) == cut(extraction)


class TestForged:
    async def test_a_job_that_is_not_the_document_s_own_changes_nothing(
        self, app: Retoma, library: Documents, folder: Path
    ) -> None:
        victim = await sent(library, LEASE)
        await drain(app)
        before = [chunk.content for chunk in await library.chunks(victim)]
        forged = await stored(folder, b"FORGED: the rent was paid and the debt is settled, says nobody.")

        receipt = await app.enqueue(process, replace(forged, id=victim))
        await drain(app)

        job = await app.jobs.get(receipt.id)
        assert (job.state, job.attempt) == ("failed", 1)
        assert (job.error or "").startswith(f"input_mismatch: job {job.id} is not the one that processes document")
        assert [chunk.content for chunk in await library.chunks(victim)] == before
        assert (await library.get(victim)).status == "COMPLETED"

    async def test_a_blob_whose_content_is_not_the_one_that_came_is_not_read(
        self, app: Retoma, library: Documents, folder: Path, extractor: Reading
    ) -> None:
        id = await sent(library, LEASE)
        document = await library.get(id)
        (folder / document.blob).write_bytes(b"FORGED: another text in the same place.")

        await drain(app)

        found = await library.get(id)
        assert (found.status, found.attempts) == ("FAILED", 1)
        assert (found.error or "").startswith("content_changed: The content of contrato.txt is not the one")
        assert extractor.read == []


async def test_a_text_that_is_meant_to_hold_up_our_patterns_is_a_document_like_any_other(
    app: Retoma, library: Documents
) -> None:
    poison = f"Valor total: a{' ' * 60_000}b\n- a: b{' ' * 60_000}c\nArt. 1. Art. 2.\n" * 3
    id = await sent(library, f"CONTRATO\n\n{poison}")

    await drain(app)

    found = await library.get(id)
    assert (found.status, found.attempts, found.error) == ("COMPLETED", 1, None)
    assert [field.name for field in await library.fields(id)] == ["Valor total"]
