"""Internal is internal: the jobs of products and of the house are made by their own routes and by the clock."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from retoma import Retoma
from retoma.pipelines import ALL
from retoma.pipelines.classification.pipeline import classify_document
from retoma.providers import BlobStore, Classifier, Embedder, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalEmbedder, LocalExtractor
from retoma.providers.local.encoder import Lexical
from retoma.worker.maintenance_jobs import MAINTENANCE_JOBS

from .conftest import House, Open, code, double

INPUTS: dict[str, Any] = {
    "documents": {
        "id": "00000000-0000-0000-0000-000000000001",
        "filename": "a.txt",
        "kind": "txt",
        "sha256": "0" * 64,
        "blob": "files/aa/bb",
    },
    "embeddings": {
        "organisation": "victim",
        "site": "s",
        "content_hash": "0" * 64,
        "content": "FORGED",
        "language": None,
        "provider": "local",
        "model": "m",
    },
    "classification": {
        "document_id": 1,
        "code": "a",
        "filename": "a.txt",
        "kind": "txt",
        "sha256": "0" * 64,
        "blob": "files/aa/bb",
    },
    "classification-batch": {"batch_id": 1, "name": "victim", "pipeline": "classification", "total": 30},
    "classification-refine": {"batch_id": 1, "project_id": 1, "labels": []},
    "books": {
        "session_id": "s",
        "filename": "a.txt",
        "kind": "txt",
        "sha256": "0" * 64,
        "blob": "files/aa/bb",
        "configuration_hash": "0" * 64,
    },
    "sweep-blobs": None,
    "update-bank-vehicle": {"vehicle_id": 1, "mode": "MARKET", "tolerance_percent": "30", "by": "FORGED"},
    "make-quote-report": {"batch_id": 1, "closing": True, "by": "FORGED"},
    "retake-quote-screenshot": {"quote_id": 1, "source_id": 1, "by": "FORGED"},
    "process-quote": {"text": "FORGED", "code": None},
    "recover-stuck-quotes": None,
    "cleanup-old-processing": None,
}


@pytest.fixture
def providers(tmp_path: Path) -> dict[type, object]:
    return {
        Extractor: LocalExtractor(),
        Embedder: LocalEmbedder(Lexical()),
        Classifier: LocalClassifier(Lexical()),
        BlobStore: FolderBlobs(tmp_path / "blobs"),
    }


@pytest.fixture
def products(open_house: Open, providers: dict[type, object]) -> House:
    return open_house(pipelines=(double,), extensions=ALL, providers=providers)


def test_every_ready_pipeline_is_internal() -> None:
    assert [
        each.name
        for each in (*(one for each in ALL for one in each.load_pipelines()), *MAINTENANCE_JOBS)
        if not each.internal
    ] == []
    assert {one.name for each in ALL for one in each.load_pipelines()} == set(INPUTS)


@pytest.mark.parametrize("name", INPUTS)
def test_a_product_takes_no_jobs_over_http(products: House, name: str) -> None:
    job = products.post("/jobs", {"pipeline": name, "input": INPUTS[name]})
    batch = products.post("/batches", {"pipeline": name, "name": "x", "jobs": [{"input": INPUTS[name]}]})
    empty = products.post("/batches", {"pipeline": name, "name": "x"})

    assert [code(each) for each in (job, batch, empty)] == [(403, "pipeline_internal")] * 3
    assert name in job.json()["detail"]
    assert products.get("/jobs").json()["jobs"] == []
    assert products.get("/batches").json()["batches"] == []


def test_nor_does_a_batch_of_it_that_is_open(products: House, providers: dict[type, object]) -> None:
    async def opened() -> int:
        async with Retoma(settings=products.settings, extensions=ALL, providers=providers) as app:
            return (await app.batches.open(classify_document, name="lot")).id

    id = asyncio.run(opened())
    filled = products.post(f"/batches/{id}/jobs", {"jobs": [{"input": INPUTS["classification"], "key": "a"}]})

    assert code(filled) == (403, "pipeline_internal")
    assert products.get("/jobs").json()["jobs"] == []


def test_the_refusal_is_said_in_portuguese_too(products: House) -> None:
    order = {"pipeline": "documents", "input": INPUTS["documents"]}
    refused = products.post("/jobs", order, headers={"Accept-Language": "pt-BR"})

    assert refused.json()["title"] == "As tarefas deste pipeline são criadas só pelo programa"
    assert "O pipeline documents não recebe tarefas por aqui" in refused.json()["detail"]


@pytest.mark.parametrize("name", [each.name for each in MAINTENANCE_JOBS])
def test_the_house_s_own_jobs_cannot_be_queued(products: House, name: str) -> None:
    job = products.post("/jobs", {"pipeline": name, "input": None})
    batch = products.post("/batches", {"pipeline": name, "name": "x", "jobs": [{"input": None}]})

    assert [code(each) for each in (job, batch)] == [(422, "pipeline_unknown")] * 2
    assert "there are double." in job.json()["detail"], "those that would be refused are not offered"


def test_nobody_else_s_job_waits_in_the_house_s_queue(products: House) -> None:
    job = products.post("/jobs", {"pipeline": "double", "input": 1, "queue": "retoma"})
    batch = products.post("/batches", {"pipeline": "double", "name": "x", "queue": "retoma", "jobs": [{"input": 1}]})
    empty = products.post("/batches", {"pipeline": "double", "name": "x", "queue": "retoma"})
    told = products.post(
        "/jobs", {"pipeline": "double", "input": 1, "queue": "retoma"}, headers={"Accept-Language": "pt"}
    )

    assert [code(each) for each in (job, batch, empty)] == [(422, "queue_reserved")] * 3
    assert told.json()["title"] == "Esta fila é só para as tarefas da casa"


def test_a_program_s_own_pipeline_takes_jobs_as_before(products: House) -> None:
    job = products.post("/jobs", {"pipeline": "double", "input": 1, "queue": "another"})
    batch = products.post("/batches", {"pipeline": "double", "name": "x", "jobs": [{"input": 1}]})

    assert (job.status_code, batch.status_code) == (202, 202)
