"""Documents with each blob store: a folder, Azure Storage (Azurite) and S3 (moto), each by its own SDK."""

from __future__ import annotations

import asyncio
import hashlib
import io
import random
import sys
import zipfile
from pathlib import Path

import psycopg
import pytest

from retoma import Retoma
from retoma.bench.evaluation import samples
from retoma.pipelines import DOCUMENTS, FILES
from retoma.pipelines.files.sweep import sweep_blobs
from retoma.postgres.connections import run_on_sync
from retoma.providers import BlobStore, Embedder, Extractor
from retoma.providers.factory import close, providers_from
from retoma.providers.local import LocalEmbedder, LocalExtractor
from retoma.providers.local.encoder import Lexical
from retoma.testing import drain
from retoma.worker.maintenance_jobs import schedule_all

from .archive import HTML, LEASE, apart, rows, send, sent
from .conftest import House, Open, code

sys.path.insert(0, str(Path(__file__).parents[1] / "providers"))

from stores import Storage, azurite_url, s3_url, storage

__all__ = ["azurite_url", "s3_url", "storage"]

pytestmark = pytest.mark.timeout(600)  # the first time, Azurite is installed

TABLES = ("documents", "document_fields", "document_tables", "document_chunks", "loose_blobs")
ALL = (DOCUMENTS, FILES)


def providers(settings: dict[str, str]) -> dict[type, object]:
    """As a program gets them that is told by *settings* where files are kept."""
    chosen = providers_from(settings)[BlobStore]
    return {BlobStore: chosen, Embedder: LocalEmbedder(Lexical()), Extractor: LocalExtractor()}


def work(house: House, settings: dict[str, str]) -> None:
    """A worker of its own, until nothing is ready."""

    async def worked() -> None:
        given = providers(settings)
        await drain(Retoma(settings=house.settings, extensions=ALL, providers=given))
        await close(given)

    apart(lambda: asyncio.run(worked()))


def sweep(house: House, settings: dict[str, str], psql: psycopg.Connection) -> int:
    """The hourly sweep, now, a day later; how many blobs it took away."""
    psql.execute("update retoma.loose_blobs set since = now() - interval '25 hours'")
    run_on_sync(psql, schedule_all("UTC", [sweep_blobs]))  # as every worker does when it starts
    job = house.post("/schedules/sweep-blobs/run").json()["id"]
    work(house, settings)
    return int(house.get(f"/jobs/{job}").json()["output"])


def with_a_picture(text: str, size: int) -> bytes:
    """A letter with a picture in it, as large as those of cameras: it goes to a store in several parts."""
    whole = io.BytesIO(samples.docx(text))
    with zipfile.ZipFile(whole, "a", zipfile.ZIP_STORED) as archive:
        archive.writestr("word/media/image1.jpeg", random.Random(1).randbytes(size))
    return whole.getvalue()


@pytest.fixture
def house(open_house: Open, storage: Storage) -> House:
    return open_house(extensions=ALL, providers=providers(storage.settings))


def test_a_document_goes_its_whole_way_in_every_store(house: House, storage: Storage, psql: psycopg.Connection) -> None:
    letter = with_a_picture(LEASE, 9_000_000)
    first, second = sent(house), sent(house, "carta.docx", letter)
    assert len(storage.names()) == 2
    work(house, storage.settings)

    for id, content in ((first, LEASE.encode()), (second, letter)):
        assert house.client.get(f"/documents/{id}/status").json()["status"] == "COMPLETED"
        file = house.client.get(f"/documents/{id}/file")
        assert (file.status_code, int(file.headers["content-length"])) == (200, len(content))
        assert file.content == content
        assert file.headers["etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    found = house.client.get("/documents/search", params={"q": "rescisão com aviso"}).json()["found"]
    assert {each["document_id"] for each in found} == {first, second}
    assert "Maria da Silva" in house.client.get(f"/documents/{second}", headers=HTML).text
    before = rows(psql, *TABLES)

    for id in (first, second):
        assert house.client.post(f"/documents/{id}/reprocess").status_code == 202
    work(house, storage.settings)

    assert {each["status"] for each in house.client.get("/documents").json()["documents"]} == {"COMPLETED"}
    assert rows(psql, *TABLES) == before
    assert len(storage.names()) == 2

    assert house.client.delete(f"/documents/{second}").status_code == 204

    assert len(storage.names()) == 1
    assert code(house.client.get(f"/documents/{second}/file")) == (404, "not_found")
    assert house.client.get(f"/documents/{first}/file").text == LEASE
    assert house.client.delete(f"/documents/{first}").status_code == 204
    assert (rows(psql, *TABLES), storage.names()) == ([0, 0, 0, 0, 0], [])


def test_the_same_content_again_leaves_one_blob_in_every_store(house: House, storage: Storage) -> None:
    first = sent(house)

    (again,) = send(house, ("outro nome.txt", LEASE)).json()["documents"]

    assert (again["id"], again["duplicate_of"]) == (first, first)
    assert len(storage.names()) == 1


def test_a_store_that_is_down_takes_nothing_and_leaves_no_row(
    house: House, open_house: Open, storage: Storage, psql: psycopg.Connection
) -> None:
    sent(house, "antes.txt", "um texto que veio antes")
    before = storage.names()
    down = open_house(extensions=ALL, providers=providers(storage.down))

    refused = send(down, ("contrato.txt", LEASE), ("carta.docx", with_a_picture(LEASE, 9_000_000)))

    assert code(refused) == (503, "store_unavailable")
    assert [fault["code"] for fault in refused.json()["errors"]] == ["store_unavailable"] * 2
    assert (refused.json()["retryable"], "retry-after" in refused.headers) == (True, True)
    assert not any(secret in refused.text for secret in (*storage.down.values(), "127.0.0.1:9", "/dev/null"))
    assert rows(psql, "documents", "jobs") == [1, 1]
    assert storage.names() == before
    # Whether a part of it arrived nobody can know, so it was announced; the sweep finds out.
    assert rows(psql, "loose_blobs") == [2]
    assert sweep(down, storage.settings, psql) == 2
    assert rows(psql, "loose_blobs") == [0]


def test_a_store_that_goes_down_later_costs_no_document_and_no_blob(
    house: House, open_house: Open, storage: Storage, psql: psycopg.Connection
) -> None:
    id = sent(house)
    down = open_house(extensions=ALL, providers=providers(storage.away))
    work(house, storage.away)

    waiting = house.client.get(f"/documents/{id}/status").json()
    assert (waiting["status"], waiting["attempts"]) == ("PENDING", 1)
    assert code(down.client.get(f"/documents/{id}/file")) == (503, "provider_unavailable")
    psql.execute("update retoma.jobs set run_at = now() where state = 'queued'")
    work(house, storage.settings)
    assert house.client.get(f"/documents/{id}/status").json()["status"] == "COMPLETED"

    assert down.client.delete(f"/documents/{id}").status_code == 204

    assert (rows(psql, "documents", "loose_blobs"), len(storage.names())) == ([0, 1], 1)
    assert sweep(house, storage.away, psql) == 0
    assert rows(psql, "loose_blobs") == [1]
    assert sweep(house, storage.settings, psql) == 1
    assert (rows(psql, "loose_blobs"), storage.names()) == ([0], [])


def test_a_blob_that_somebody_took_away_is_told_by_the_same_code_in_every_store(house: House, storage: Storage) -> None:
    id = sent(house)
    (name,) = storage.names()

    async def take_away() -> None:
        given = providers(storage.settings)
        await given[BlobStore].delete(name)  # type: ignore[attr-defined]
        await close(given)

    apart(lambda: asyncio.run(take_away()))
    work(house, storage.settings)

    failed = house.client.get(f"/documents/{id}/status").json()
    assert (failed["status"], failed["attempts"]) == ("FAILED", 1)
    assert failed["error_log"].startswith("document_missing: ")
    assert ("contrato.txt" in failed["error_log"], name in failed["error_log"]) == (True, False)
    assert "Remova este documento e envie o arquivo de novo." in house.client.get("/documents", headers=HTML).text
    assert code(house.client.get(f"/documents/{id}/file")) == (404, "not_found")
    assert house.client.delete(f"/documents/{id}").status_code == 204
    assert house.client.get(f"/documents/{sent(house)}/file").text == LEASE


def test_what_nobody_owns_is_swept_out_of_every_store_and_the_rest_stays(
    house: House, storage: Storage, psql: psycopg.Connection
) -> None:
    id = sent(house)
    (kept,) = storage.names()
    loose = sent(house, "outro.txt", "outro texto")
    psql.execute("delete from retoma.documents where id = %s", [loose])  # as if its row had never been committed
    blob = next(iter(set(storage.names()) - {kept}))
    psql.execute("insert into retoma.loose_blobs (blob) values (%s)", [blob])

    assert sweep(house, storage.settings, psql) == 1

    assert storage.names() == [kept]
    assert house.client.get(f"/documents/{id}/file").text == LEASE
