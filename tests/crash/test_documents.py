"""Documents: killed between any two stages, nothing is done twice; three workers, each document once."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from documents_app import PIPELINES, STAGES, providers
from fleet import Fleet, until
from oracle import Oracle

from retoma import Retoma
from retoma.pipelines.documents.library import Documents

MANY = int(os.environ.get("DOCUMENTS_MANY", "120"))
"""How many documents three workers share: the promise is for 1,000, which takes minutes."""

PATIENCE = 120.0 + MANY

pytestmark = [pytest.mark.crash, pytest.mark.timeout(60 + 2 * PATIENCE)]

Figure = Callable[[str, object], None]


@pytest.fixture
async def library(fleet: Fleet) -> AsyncIterator[Documents]:
    async with Retoma(fleet.url, pipelines=PIPELINES, providers=providers(fleet.folder / "blobs")) as app:
        yield Documents(app)


def text_of(number: int) -> str:
    clauses = (f"CLÁUSULA {clause}ª\nO contrato {number} trata do assunto {clause}.\n" for clause in range(1, 4))
    return f"Contrato número: {number}\n" + "".join(clauses)


async def sent(library: Documents, number: int) -> UUID:
    async def content() -> AsyncIterator[bytes]:
        yield text_of(number).encode()

    return (await library.receive(f"contrato-{number}.txt", content())).document.id


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


async def all_once(library: Documents, oracle: Oracle, ids: list[UUID]) -> None:
    """Every document is completed, every stage was done once, and no row is there twice."""
    now = await library.statuses(ids)
    assert Counter(each.status for each in now) == {"COMPLETED": len(ids)}
    assert stages_done(oracle) == {each.job_id: Counter(STAGES) for each in now}
    rows = oracle.rows("select document_id, count(*), count(distinct content) from retoma.document_chunks group by 1")
    assert sorted(rows) == sorted((id, 4, 4) for id in ids)
    assert oracle.one("select count(*) from retoma.document_fields") == len(ids)
    oracle.nothing_is_wrong()


async def test_a_kill_between_any_two_stages_repeats_no_stage_and_doubles_no_row(
    fleet: Fleet, oracle: Oracle, library: Documents
) -> None:
    ids = [await sent(library, number) for number in range(len(STAGES))]
    # One worker for each stage: it takes one document and stops when that stage is committed.
    members = [
        fleet.start(stage, app="documents_app:app", at_once=1, queues=["documents"], crash_after=stage)
        for stage in STAGES
    ]
    await until(
        lambda: {stage_of(mark.step) for mark in oracle.marks("waits")} == set(STAGES),
        seconds=120,
        what="each worker waits after its stage",
    )
    assert len({mark.job for mark in oracle.marks("waits")}) == len(STAGES)

    for member in members:
        member.send(signal.SIGKILL, executors=True)
    fleet.start("again", app="documents_app:app", queues=["documents"])
    await until(oracle.all_ended, seconds=120, what="all documents are processed")

    await all_once(library, oracle, ids)
    assert [each.attempts for each in await library.statuses(ids)] == [2] * len(ids)


async def test_three_workers_process_each_document_exactly_once_though_one_of_them_is_killed(
    fleet: Fleet, oracle: Oracle, library: Documents, figure: Figure
) -> None:
    ids = [await sent(library, number) for number in range(MANY)]
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
    await until(oracle.all_ended, seconds=PATIENCE, what="all documents are processed")

    now = await library.statuses(ids)
    assert Counter(each.status for each in now) == {"COMPLETED": MANY}
    again = {job: done - Counter(STAGES) for job, done in stages_done(oracle).items() if done != Counter(STAGES)}
    # What the killed worker had in its hands may be begun again; what was committed may not, nor anything else.
    assert sum(len(stages) for stages in again.values()) <= 4
    assert oracle.one("select count(*) from retoma.document_chunks") == 4 * MANY
    assert oracle.one("select count(*) from retoma.document_fields") == MANY
    oracle.nothing_is_wrong()
    figure("worked", Counter(mark.pid for mark in oracle.marks("began")).most_common())


async def test_a_sender_who_is_killed_leaves_a_whole_document_or_none_and_no_file_for_ever(
    fleet: Fleet, oracle: Oracle, library: Documents
) -> None:
    places = ("stored", "written", "committed")
    members = [fleet.call(place, "documents_sender.py", place, text_of(n)) for n, place in enumerate(places)]
    await until(lambda: all("here" in member.words() for member in members), seconds=60, what="all three stopped")

    for member in members:
        member.send(signal.SIGKILL)
        await member.exit_code()
    (committed,) = await until(
        lambda: oracle.rows("select id from retoma.documents where filename = 'committed.txt'"), what="it is there"
    )
    await until(
        lambda: oracle.one("select count(*) from pg_stat_activity where state = 'idle in transaction'") == 0,
        what="the server has noticed that the sender is gone",
    )

    assert oracle.rows("select filename from retoma.documents") == [("committed.txt",)]
    assert oracle.one("select count(*) from retoma.jobs where pipeline = 'documents'") == 1
    assert oracle.one("select count(*) from retoma.loose_blobs") == 2
    assert len(stored(fleet.folder)) == 3
    oracle.rows("update retoma.loose_blobs set since = now() - interval '25 hours' returning blob")
    assert await library.files.sweep(timedelta(days=1)) == 2
    assert len(stored(fleet.folder)) == 1
    # Nothing is in the way of who sends it again, and what was committed is processed.
    ids = [committed[0], await sent(library, 0), await sent(library, 1)]
    fleet.start("worker", app="documents_app:app", queues=["documents"])
    await until(oracle.all_ended, seconds=120, what="all documents are processed")
    await all_once(library, oracle, ids)


def stored(folder: Path) -> list[Path]:
    return [path for path in (folder / "blobs" / "files").rglob("*") if path.is_file()]
