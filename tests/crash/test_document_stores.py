"""Documents in each blob store: a server that is killed between the blob and the row leaves neither for ever."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from pathlib import Path

import httpx2
import pytest
from fleet import Fleet, Member, until
from oracle import Oracle

sys.path.insert(0, str(Path(__file__).parents[1] / "providers"))

from stores import Storage, azurite_url, s3_url, storage

__all__ = ["azurite_url", "s3_url", "storage"]

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

CONTRACT = "Contrato número: 7\n\nCLÁUSULA PRIMEIRA\nO contrato trata do assunto combinado.\n"


async def started(fleet: Fleet, command: str, settings: dict[str, str]) -> tuple[Member, str]:
    """A server, once it lets callers in, and its address."""
    member = fleet.run(command, settings, command, "--app", "stores_app:app", "--port", "0")
    said = await until(lambda: re.search(r"The API is at (http://\S+)/api/v1\.", member.words()), what="it serves")
    return member, said[1]


async def seen(client: httpx2.AsyncClient, path: str, name: str, wanted: str) -> None:
    """Wait until that is what the server says."""
    end = asyncio.get_running_loop().time() + 60
    while (now := (await client.get(path)).json())[name] != wanted:
        assert asyncio.get_running_loop().time() < end, now
        await asyncio.sleep(0.1)


async def test_a_server_killed_between_blob_and_row_leaves_a_blob_that_is_swept_and_no_row(
    fleet: Fleet, oracle: Oracle, storage: Storage
) -> None:
    first, url = await started(fleet, "serve", storage.settings | {"STOP_AFTER_PUT": "1"})
    file = [("files", ("contrato.txt", CONTRACT.encode()))]
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        sending = asyncio.create_task(client.post("/documents", files=file))
        (stored,) = await until(lambda: re.findall(r"^stored (\S+)$", first.words(), re.MULTILINE), what="it is stored")

        first.send(signal.SIGKILL)

        with pytest.raises(httpx2.TransportError):
            await sending
    await first.exit_code()
    assert storage.names() == [stored]
    assert oracle.one("select count(*) from retoma.documents") == 0
    assert oracle.one("select count(*) from retoma.jobs where queue <> 'retoma'") == 0
    assert oracle.rows("select blob, dropped_at from retoma.loose_blobs") == [(stored, None)]

    # Nothing stands in the way of who sends it again: read by a worker, handed out, and in the store once more.
    _, url = await started(fleet, "up", storage.settings)
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        taken = await client.post("/documents", files=file)
        assert taken.status_code == 202, taken.text
        (sent,) = taken.json()["documents"]
        assert "duplicate_of" not in sent
        await seen(client, sent["status_url"], "status", "COMPLETED")
        assert (await client.get(f"/documents/{sent['id']}/file")).text == CONTRACT
        assert len(storage.names()) == 2
        oracle.rows("update retoma.loose_blobs set since = now() - interval '25 hours' returning blob")
        swept = (await client.post("/api/v1/schedules/sweep-blobs/run")).json()["status_url"]
        await seen(client, swept, "state", "completed")

        assert (await client.get(swept)).json()["output"] == 1
        assert len(storage.names()) == 1
        assert stored not in storage.names()
        assert (await client.get(f"/documents/{sent['id']}/file")).text == CONTRACT
    assert oracle.one("select count(*) from retoma.loose_blobs") == 0
    oracle.nothing_is_wrong()
