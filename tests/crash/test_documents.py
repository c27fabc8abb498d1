"""Documents over HTTP: killed between any two stages, nothing is done twice; three workers, each document once.

Who asks here knows the address of a server and nothing else; what happened is read from the logs that only grow.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from documents_app import STAGES
from fleet import Fleet, until
from oracle import Oracle

MANY = int(os.environ.get("DOCUMENTS_MANY", "120" if os.environ.get("EXPLORE") else "40"))
"""How many documents three workers share: the promise is for 1,000, which takes a minute and both cores."""

PATIENCE = 120.0 + MANY

pytestmark = [pytest.mark.crash, pytest.mark.timeout(60 + 2 * PATIENCE)]

Figure = Callable[[str, object], None]


@pytest.fixture
async def client(fleet: Fleet) -> AsyncIterator[httpx2.AsyncClient]:
    """What somebody has who knows the address of a server, and nothing else."""
    server = fleet.run("serve", {}, "serve", "--app", "documents_app:app", "--port", "0")
    said = await until(lambda: re.search(r"The API is at (http://\S+)/api/v1\.", server.words()), what="it serves")
    async with httpx2.AsyncClient(base_url=said[1], timeout=60) as client:
        yield client


def text_of(number: int) -> str:
    clauses = (f"CLÁUSULA {clause}ª\nO contrato {number} trata do assunto {clause}.\n" for clause in range(1, 4))
    return f"Contrato número: {number}\n" + "".join(clauses)


async def sent(client: httpx2.AsyncClient, *numbers: int) -> list[str]:
    """The ids of the documents that so many files of one request became."""
    files = [("files", (f"contrato-{number}.txt", text_of(number).encode())) for number in numbers]
    answer = await client.post("/documents", files=files)
    assert answer.status_code == 202, answer.text
    return [each["id"] for each in answer.json()["documents"]]


async def statuses(client: httpx2.AsyncClient, ids: Sequence[str]) -> list[Any]:
    found = []
    for start in range(0, len(ids), 200):
        asked = await client.get("/documents/status", params={"ids": ",".join(ids[start : start + 200])})
        found += asked.raise_for_status().json()["documents"]
    return found


async def all_ended(client: httpx2.AsyncClient, ids: Sequence[str], *, seconds: float = 240.0) -> list[Any]:
    """What is said of them, once nothing happens any more."""
    async with asyncio.timeout(seconds):
        while True:
            found = await statuses(client, ids)
            if all(each["completed_at"] for each in found):
                return found
            await asyncio.sleep(0.2)


def stage_of(step: str) -> str:
    return step.partition("/")[0]


def stages_done(oracle: Oracle) -> dict[int, Counter[str]]:
    """How often each stage of each document's job was begun. The house's own jobs, which come by the clock, have steps
    of other names.
    """
    found: dict[int, Counter[str]] = {}
    for mark in oracle.marks("began"):
        if stage_of(mark.step) in STAGES:
            found.setdefault(mark.job, Counter())[stage_of(mark.step)] += 1
    return found


async def all_whole(client: httpx2.AsyncClient, ids: Sequence[str]) -> None:
    """Every document is completed, and all that was read from it is there, once."""
    for id in ids:
        whole = (await client.get(f"/documents/{id}")).raise_for_status().json()
        assert (whole["status"], whole["error"]) == ("COMPLETED", None)
        assert [stage_of(step["name"]) for step in whole["steps"]] == list(STAGES)
        assert [field["name"] for field in whole["fields"]] == ["Contrato número"]
        assert [chunk["place"] for chunk in whole["chunks"]] == [0, 1, 2, 3]
        assert len({chunk["text"] for chunk in whole["chunks"]}) == 4


async def all_once(client: httpx2.AsyncClient, oracle: Oracle, ids: Sequence[str]) -> None:
    """The same, and no stage was begun twice."""
    await all_whole(client, ids)
    assert stages_done(oracle) == {each["job_id"]: Counter(STAGES) for each in await statuses(client, ids)}
    oracle.nothing_is_wrong()


async def test_a_kill_between_any_two_stages_repeats_no_stage_and_doubles_no_row(
    fleet: Fleet, oracle: Oracle, client: httpx2.AsyncClient
) -> None:
    ids = await sent(client, *range(len(STAGES)))
    # One worker for each stage: it takes one document and stops when that stage is committed.
    members = [
        fleet.start(stage, app="documents_app:app", at_once=1, queues=["documents"], crash_after=stage)
        for stage in STAGES
    ]
    await until(
        lambda: {stage_of(mark.step) for mark in oracle.marks("waits")} == set(STAGES),
        what="each worker waits after its stage",
    )
    assert len({mark.job for mark in oracle.marks("waits")}) == len(STAGES)

    for member in members:
        member.send(signal.SIGKILL, executors=True)
    fleet.start("again", app="documents_app:app", queues=["documents"])

    assert [each["attempts"] for each in await all_ended(client, ids)] == [2] * len(ids)
    await all_once(client, oracle, ids)


async def test_three_workers_process_each_document_exactly_once_though_one_of_them_is_killed(
    fleet: Fleet, oracle: Oracle, client: httpx2.AsyncClient, figure: Figure
) -> None:
    ids = await sent(client, *range(MANY))
    members = [
        fleet.start(f"worker-{number}", app="documents_app:app", at_once=4, queues=["documents"])
        for number in (1, 2, 3)
    ]
    await until(
        lambda: oracle.one("select count(*) from retoma.jobs where state = 'completed'") >= MANY // 4,
        seconds=PATIENCE,
        what="a quarter is done",
    )
    members[0].send(signal.SIGKILL, executors=True)

    await all_ended(client, ids, seconds=PATIENCE)
    await all_whole(client, ids)
    again = {job: done - Counter(STAGES) for job, done in stages_done(oracle).items() if done != Counter(STAGES)}
    # What the killed worker had in its hands may be begun again; what was committed may not, nor anything else.
    assert sum(len(stages) for stages in again.values()) <= 4
    oracle.nothing_is_wrong()
    figure("worked", Counter(mark.pid for mark in oracle.marks("began")).most_common())


async def test_a_sender_who_is_killed_leaves_a_whole_document_or_none_and_no_file_for_ever(
    fleet: Fleet, oracle: Oracle, client: httpx2.AsyncClient
) -> None:
    places = ("stored", "written", "committed")
    members = [fleet.call(place, "documents_sender.py", place, text_of(n)) for n, place in enumerate(places)]
    await until(lambda: all("here" in member.words() for member in members), what="all three stopped")

    for member in members:
        member.send(signal.SIGKILL)
        await member.exit_code()
    (committed,) = await until(
        lambda: oracle.rows("select id from retoma.documents where filename = 'committed.txt'"), what="it is there"
    )
    await until(
        lambda: not oracle.open_transactions(),
        what="the server has noticed that the sender is gone",
    )

    assert oracle.rows("select filename from retoma.documents") == [("committed.txt",)]
    assert oracle.one("select count(*) from retoma.jobs where pipeline = 'documents'") == 1
    assert oracle.one("select count(*) from retoma.loose_blobs") == 2
    assert len(stored(fleet.folder)) == 3
    oracle.rows("update retoma.loose_blobs set since = now() - interval '25 hours' returning blob")
    await fleet.start("worker", app="documents_app:app").ready()
    swept = (await client.post("/api/v1/schedules/sweep-blobs/run")).raise_for_status().json()["status_url"]
    await until(oracle.all_ended, what="both blobs are swept away")
    assert (await client.get(swept)).json()["output"] == 2
    assert len(stored(fleet.folder)) == 1
    # Nothing is in the way of who sends it again, and what was committed is processed.
    ids = [str(committed[0]), *await sent(client, 0, 1)]
    await all_ended(client, ids)
    await all_once(client, oracle, ids)


def stored(folder: Path) -> list[Path]:
    return [path for path in (folder / "blobs" / "files").rglob("*") if path.is_file()]
