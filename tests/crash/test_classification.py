"""Many documents, some corrupt, and workers that are killed: each document has one result, every error its words."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet import Fleet, Member, until
from oracle import Oracle

from retoma import Retoma
from retoma.pipelines import CLASSIFICATION
from retoma.pipelines.classification.library import Classification
from retoma.providers import BlobStore, Classifier, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]

MANY = int(os.environ.get("CLASSIFICATION_DOCUMENTS", "300" if os.environ.get("EXPLORE") else "200"))
"""2,000 is what the seed speaks of; fewer tell the same story more quickly."""

KINDS = {
    "ata": "Ata da reunião ordinária. Presentes os senhores. Ordem do dia. Nada mais havendo a tratar, lavrei a ata.",
    "contrato": "Pelo presente instrumento particular, contratante e contratada ajustam cláusulas, preço e vigência.",
    "sentença": "Vistos. Fundamento e decido. Ante o exposto, julgo procedente o pedido e condeno o réu nas custas.",
}


@pytest.fixture
async def library(fleet: Fleet) -> AsyncIterator[Classification]:
    providers: dict[type, object] = {
        Extractor: LocalExtractor(),
        Classifier: LocalClassifier(Lexical()),
        BlobStore: FolderBlobs(fleet.folder / "blobs"),
    }
    async with Retoma(fleet.url, extensions=[CLASSIFICATION], providers=providers) as app:
        yield Classification(app)


def write(folder: Path, count: int, *, corrupt: int) -> Path:
    """*count* documents; of each hundred, *corrupt* are no documents at all."""
    folder.mkdir()
    for number in range(count):
        kind = list(KINDS)[number % len(KINDS)]
        if number % 100 < corrupt:
            (folder / f"{number:05}.pdf").write_bytes(b"%PDF-1.7\n" + random.Random(number).randbytes(2000))
        else:
            (folder / f"{number:05}.txt").write_text(f"{KINDS[kind]} Este é o documento de número {number}.\n")
    return folder


async def begin(library: Classification, folder: Path, count: int, *, corrupt: int = 0) -> int:
    project = await library.create_project("Muitos", at_once=10)
    intake = await library.add_folder(project.id, write(folder, count, corrupt=corrupt))
    assert len(intake.added) == count
    return (await library.start(project.id)).id


def start(fleet: Fleet, label: str, **settings: object) -> Member:
    settings = {"watchdog_seconds": 0.5, **settings}
    return fleet.start(label, app="classify_app:app", queues=["classification"], at_once=5, **settings)


def classified(fleet: Fleet) -> Counter[int]:
    """How often each document was classified, by the diary."""
    diary = fleet.folder / "classified.log"
    lines = diary.read_text().splitlines() if diary.exists() else []
    return Counter(int(line.split()[0]) for line in lines)


def done(oracle: Oracle, id: int) -> int:
    query = "select count(*) from retoma.jobs where batch_id = %s and state not in ('queued', 'running')"
    return int(oracle.rows(query, id)[0][0])


async def test_many_documents_some_corrupt_under_random_kills_have_one_result_each_and_every_error_its_words(
    fleet: Fleet, oracle: Oracle, library: Classification, tmp_path: Path
) -> None:
    chance = random.Random(6)
    id = await begin(library, tmp_path / "many", MANY, corrupt=1)
    members = [start(fleet, "ana"), start(fleet, "bruno")]
    for share in (0.15, 0.35, 0.55, 0.75):
        await until(lambda part=share: done(oracle, id) >= part * MANY, seconds=300, what=f"{share:.0%} are done")
        victim = members.pop(chance.randrange(2))
        victim.send(signal.SIGKILL, executors=True, supervisor=chance.random() < 0.5)
        members.append(start(fleet, f"next-{share}") if victim.ended or chance.random() < 0.5 else victim)
    await until(lambda: oracle.batch(id)[0] == "completed", seconds=300, what="it is completed")
    now, found = await library.execution(id), await library.results(id, limit=100_000)

    corrupt = {f"{number:05}.pdf" for number in range(0, MANY, 100)}
    assert (now.total, now.done, now.percent) == (MANY, MANY, 100.0)
    assert len(found) == len({each.document_id for each in found}) == MANY
    assert {each.code for each in found if each.state == "failed"} == corrupt
    assert all((each.said or "").startswith("document_damaged: ") for each in found if each.code in corrupt)
    assert all(each.category and each.processed_at for each in found if each.code not in corrupt)
    assert oracle.rows("select count(*) from retoma.classifications")[0][0] == MANY
    again = sum(count - 1 for count in classified(fleet).values())
    assert again <= oracle.lost(), "only what somebody was killed over was done twice"
    assert set(classified(fleet)) == {number for number in range(MANY) if number % 100 >= 1}
    exported = b"".join([piece async for piece in library.export(id, "csv")])
    assert exported.count(b"\r\n") == MANY + 1
    assert await library.app.system.verify() == []


async def test_a_stalled_execution_resumed_twice_at_once_goes_on_once_and_redoes_nothing(
    fleet: Fleet, oracle: Oracle, library: Classification, tmp_path: Path
) -> None:
    id = await begin(library, tmp_path / "some", 60)
    first = start(fleet, "ana")
    await until(lambda: done(oracle, id) >= 20, what="20 are done")
    first.send(signal.SIGSTOP)
    first.send(signal.SIGKILL, executors=True)
    await library.app.batches.change(id, stall_seconds=1)

    async def stalled() -> bool:
        await library.app.jobs.recover()
        await library.app.batches.look_after()
        return (await library.execution(id)).state == "stalled"

    while not await stalled():
        await asyncio.sleep(0.2)
    before = await library.execution(id)
    finished = {each.code: each.processed_at for each in await library.results(id) if each.state == "completed"}
    noted = classified(fleet)
    resumed = await asyncio.gather(*(library.resume(id) for _ in range(2)))
    await library.app.batches.change(id, stall_seconds=300)
    start(fleet, "bruno")
    await until(lambda: oracle.batch(id)[0] == "completed", what="it is completed")
    now, found = await library.execution(id), await library.results(id)

    assert before.cause is not None
    assert before.cause["sentence"]
    assert before.last_key in {each.code for each in found}
    assert sorted(each.changed for each in resumed) == [False, True]
    assert (now.resumes, now.completed, now.total) == (0, 60, 60), "nobody was there: no resume was used up"
    assert {each.code: each.processed_at for each in found if each.code in finished} == finished
    numbers = {int(code.partition(".")[0]) for code in finished}
    assert {number: classified(fleet)[number] for number in numbers} == {number: noted[number] for number in numbers}
    assert len(found) == 60
    assert await library.app.system.verify() == []
