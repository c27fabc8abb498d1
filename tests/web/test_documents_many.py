"""Many files and large ones: the server answers them all, and its memory does not grow with them."""

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import psycopg
import pytest

from retoma.pipelines import DOCUMENTS

from .archive import LEASE, providers, rows, sent, work
from .conftest import Open

PROGRAM = """
from pathlib import Path

from retoma import Retoma
from retoma.pipelines import DOCUMENTS
from retoma.providers import BlobStore, Embedder, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalEmbedder, LocalExtractor
from retoma.providers.local.encoder import Lexical

app = Retoma(
    extensions=[DOCUMENTS],
    providers={
        BlobStore: FolderBlobs(Path("blobs")),
        Embedder: LocalEmbedder(Lexical()),
        Extractor: LocalExtractor(),
    },
)
"""
MEGABYTE = 1_000_000


@pytest.fixture
def alone(database_url: str, tmp_path: Path) -> Iterator[tuple[psutil.Process, str]]:
    """``retoma serve`` as a process of its own."""
    (tmp_path / "shelf.py").write_text(PROGRAM, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "retoma", "serve", "--app", "shelf:app", "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "DATABASE_URL": database_url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    url = next(found[1] for line in process.stderr if (found := re.search(r"is at (http://\S+)/api/v1\.", line)))
    yield psutil.Process(process.pid), url
    process.terminate()
    process.communicate()


@pytest.mark.timeout(600)
def test_a_large_upload_does_not_pass_through_memory(
    alone: tuple[psutil.Process, str], psql: psycopg.Connection
) -> None:
    process, url = alone
    highest = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.01):
            highest = max(highest, process.memory_info().rss)

    with httpx2.Client(base_url=url, timeout=100) as client:
        client.post("/documents", files=[("f", ("a.txt", LEASE.encode()))])
        before = process.memory_info().rss
        watching = threading.Thread(target=watch)
        watching.start()
        answer = client.post(
            "/documents", files=[("f", ("large.txt", b"uma linha de texto\n" * (45 * MEGABYTE // 19)))]
        )
        done.set()
        watching.join()

    assert answer.status_code == 202, answer.text
    assert psql.execute("select max(size) from retoma.documents").fetchone()[0] > 44 * MEGABYTE  # type: ignore[index]
    assert highest - before < 20 * MEGABYTE, f"it grew by {(highest - before) / MEGABYTE:.0f} MB"


@pytest.mark.timeout(600)
def test_two_hundred_at_once_are_all_answered_while_work_is_done(
    open_house: Open, tmp_path: Path, psql: psycopg.Connection
) -> None:
    given = providers(tmp_path / "blobs")
    house = open_house(extensions=[DOCUMENTS], providers=given)
    for number in range(5):
        sent(house, f"before {number}.txt", f"{LEASE}\n{number}")

    async def send_all() -> list[httpx2.Response]:
        async with httpx2.AsyncClient(
            base_url=house.url, timeout=100, limits=httpx2.Limits(max_connections=200)
        ) as client:
            return await asyncio.gather(
                *(client.post("/documents", files=[("f", (f"{n}.txt", f"{n} {LEASE}".encode()))]) for n in range(200))
            )

    working = threading.Thread(target=work, args=(house, given))
    working.start()
    answers = asyncio.run(send_all())
    working.join()

    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["documents"][0]["id"] for answer in answers}) == 200
    assert rows(psql, "documents", "loose_blobs") == [205, 0]
