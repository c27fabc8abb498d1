"""Many senders at once, and server processes that are killed while they write down what came."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from contextlib import suppress
from pathlib import Path

import httpx2
import psutil
import pytest
from fleet import Fleet, Member, until
from oracle import Oracle

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

SENDERS = 12
KILLS = 3
SLOWLY = """
create function slowly() returns trigger language plpgsql as 'begin perform pg_sleep(1); return null; end';
create trigger slowly after insert on retoma.documents for each statement execute function slowly();
"""
WRITING = "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()"


def servers_of(parent: Member) -> list[int]:
    return [child.pid for child in psutil.Process(parent.pid).children()]


async def sent(url: str, name: str, broken: list[str]) -> str:
    """The id of the document that the file became, asked for until somebody answers."""
    content = f"Contrato número: {name}\n\nCLÁUSULA PRIMEIRA\nO contrato trata do assunto combinado.\n"
    while True:
        with suppress(httpx2.TransportError):
            async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
                answer = await client.post("/documents", files=[("files", (f"{name}.txt", content.encode()))])
                assert answer.status_code == 202, answer.text
                return str(answer.json()["documents"][0]["id"])
        broken.append(name)
        await asyncio.sleep(0.2)


async def test_servers_killed_while_they_write_down_what_many_sent_lose_and_double_nothing(
    fleet: Fleet, oracle: Oracle, tmp_path: Path
) -> None:
    blobs = tmp_path / "blobs"
    oracle.connection.execute(SLOWLY)
    settings = {"RETOMA_BLOBS": str(blobs)}
    options = ("--app", "stores_app:app", "--port", "0", "--processes", "2")
    parent = fleet.run("serve", settings, "serve", *options)
    said = await until(lambda: re.search(r"The API is at (http://\S+)/api/v1\.", parent.words()), what="it serves")
    broken: list[str] = []
    sending = [asyncio.create_task(sent(said[1], str(number), broken)) for number in range(SENDERS)]
    for _ in range(KILLS):
        await until(lambda: oracle.one(WRITING), what="somebody writes down what came")
        for pid in servers_of(parent):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await until(lambda: not oracle.one(WRITING), what="the server of the database has noticed")
    oracle.connection.execute("drop trigger slowly on retoma.documents")

    answered = await asyncio.gather(*sending)

    assert len(broken) >= KILLS, "the kills came between"
    documents = oracle.rows("select id::text, job_id, blob from retoma.documents")
    assert sorted(id for id, _, _ in documents) == sorted(answered), (
        "each file is one document, and what was answered is there"
    )
    assert sorted(job for _, job, _ in documents) == [
        job for (job,) in oracle.rows("select id from retoma.jobs where queue <> 'retoma' order by id")
    ]
    owned = {blob for _, _, blob in documents}
    loose = {blob for (blob,) in oracle.rows("select blob from retoma.loose_blobs")}
    kept = {str(file.relative_to(blobs)) for file in blobs.rglob("*") if file.is_file() and ".parts" not in file.parts}
    assert owned <= kept, "no document lacks its file"
    assert kept <= owned | loose, "no file is forgotten"
    assert not owned & loose
