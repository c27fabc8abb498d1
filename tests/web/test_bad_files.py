"""Every bad file of the corpus by every door that takes files: refused with a code or taken as a document that fails,
never an error of ours, and nothing in the answer that is not the caller's.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from retoma.pipelines import ALL
from retoma.providers import Classifier
from retoma.providers.local import LocalClassifier
from retoma.providers.local.encoder import Lexical
from retoma.web.http.errors import STATUSES

from .archive import LEASE, providers
from .conftest import PIPELINES, House, Open
from .test_audit_routes import DESK, PAGE, Stage

import bad_files  # isort: skip - on the path since archive was imported

pytestmark = pytest.mark.timeout(600)

MOST_GROWTH = 600 << 10
"""Kilobytes by which the server may grow over all of them together."""
INSIDE = ("Traceback", 'File "', "psycopg", "site-packages", "/retoma/")
DOORS: dict[str, Callable[[Stage, str, bytes], httpx2.Response]] = {
    "documents": lambda stage, name, content: stage.house.client.post("/documents", files={"files": (name, content)}),
    "books": lambda stage, name, content: stage.house.client.post("/api/v1/books", files={"file": (name, content)}),
    "a book's page": lambda stage, name, content: stage.house.client.post(
        "/books", files={"file": (name, content)}, **PAGE
    ),
    "summarize": lambda stage, name, content: stage.house.client.post(
        "/api/summarize", files={"file": (name, content)}
    ),
    "a lot": lambda stage, name, content: stage.house.client.post(
        f"{DESK}/lotes/1/upload", files={"arquivos": (name, content)}
    ),
    "a list": lambda stage, name, content: stage.house.client.post(
        "/cotacoes/listas", files={"arquivo": (name, content)}, **PAGE
    ),
    "the preview of a list": lambda stage, name, content: stage.house.client.post(
        "/cotacoes/listas/previa", files={"arquivo": (name, content)}, **PAGE
    ),
}


@pytest.fixture
def whole(open_house: Open, tmp_path: Path) -> House:
    given: dict[type, object] = {**providers(tmp_path / "blobs"), Classifier: LocalClassifier(Lexical())}
    return open_house(pipelines=PIPELINES, extensions=ALL, providers=given)


@pytest.mark.parametrize("door", DOORS)
def test_no_bad_file_is_an_error_of_ours(whole: House, psql: psycopg.Connection, tmp_path: Path, door: str) -> None:
    stage, wrong = Stage(whole), []
    stage.post(f"{DESK}/projetos", json={"nome": "l"})
    files = [(f"{number}.{bad.kind}", bad.make()) for number, bad in enumerate(bad_files.CORPUS)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for bad, (name, content) in zip(bad_files.CORPUS, files, strict=True):
        answered = DOORS[door](stage, name, content)
        is_problem = answered.headers.get("content-type") == "application/problem+json"
        said = answered.text.replace(LEASE, "")
        if answered.status_code >= 500 or [each for each in INSIDE if each in said] or str(tmp_path) in said:
            wrong.append((bad.name, answered.status_code, said[:300]))
        if is_problem and STATUSES[answered.json()["code"]] != answered.status_code:
            wrong.append((bad.name, answered.status_code, answered.json()["code"]))
        if answered.status_code >= 400 and stands(psql, name):
            wrong.append((bad.name, "refused, and something of it is kept"))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert wrong == []
    assert grown < MOST_GROWTH
    assert whole.client.get("/readyz").status_code == 200, "the server is well"
    assert DOORS["documents"](stage, "good.txt", LEASE.encode()).status_code == 202


def stands(psql: psycopg.Connection, name: str) -> list[Any]:
    """What is kept of the file called *name*."""
    return psql.execute(
        "select filename from retoma.documents where filename = %(name)s union all "
        "select filename from retoma.project_documents where filename = %(name)s union all "
        "select filename from books.inputs where filename = %(name)s union all "
        "select filename from quotes.batch_quote_jobs where filename = %(name)s",
        {"name": name},
    ).fetchall()
