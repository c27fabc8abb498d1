"""Documents handed in and looked for until they are read: what was handed in once is not handed in again.

The service is that of tests/servers, a process of its own, and the provider is the true one.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retoma import Job, JobState, Retoma, Retry, Run, pipeline
from retoma.providers import Extractor
from retoma.providers.azure_documents import AzureExtractor
from retoma.testing import drain, rehearse
from retoma.testing.wire import Fault, Served

SERVICES = Path(__file__).parents[1] / "servers" / "services.py"
LOOKS = "/analyzeResults/"
RUNNING = Fault(kind="answer", body='{"status": "running"}', path=LOOKS, times=None)
LIMIT = "azure-documents/prebuilt-layout"
PATIENT = Retry(attempts=1000, wait=0.05, factor=1, jitter=0)
"""However slow the machine is: what is counted is what was handed in."""


@pytest.fixture(scope="module")
def running_services() -> Iterator[Served]:
    with Served(str(SERVICES)) as served:
        yield served


@pytest.fixture
def services(running_services: Served) -> Served:
    """The service, in good order, having heard nothing yet."""
    running_services.tell()
    return running_services


@pytest.fixture
async def reader(services: Served) -> AsyncIterator[AzureExtractor]:
    reader = AzureExtractor(key="no-secret", endpoint=services.url, pause=0.05)
    yield reader
    await reader.aclose()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "contrato.pdf")


def written(path: Path) -> Path:
    """A file whose content nobody has handed in before."""
    path.write_bytes(f"%PDF-1.7 {path}".encode())
    return path


async def text_of(path: str, run: Run, extractor: Extractor, step: str = "read", **options: Any) -> str:
    file = Path(path)
    return (await run.extract(step, extractor, file, kind="pdf", sha256=sha256_of(file), **options)).text


@pipeline("read", retry=Retry(attempts=3, wait=0.0))
async def read(path: str, run: Run, *, extractor: Extractor) -> str:
    return await text_of(path, run, extractor)


@pipeline("read-in-a-hurry", retry=PATIENT)
async def hurry(path: str, run: Run, *, extractor: Extractor) -> str:
    return await text_of(path, run, extractor, timeout=0.4)


@pipeline("read-once", retry=Retry(attempts=1))
async def once(path: str, run: Run, *, extractor: Extractor) -> str:
    return await text_of(path, run, extractor, timeout=0.4)


@pipeline("read-in-a-short-job", retry=PATIENT, timeout=0.5)
async def short(path: str, run: Run, *, extractor: Extractor) -> str:
    return await text_of(path, run, extractor)


@pipeline("read-two-throws", retry=PATIENT)
async def throws(path: str, run: Run, *, extractor: Extractor) -> list[str]:
    steps = (text_of(path, run, extractor, step, timeout=0.6, reuse=False) for step in ("one", "two"))
    return list(await asyncio.gather(*steps))


def submitted(services: Served, folder: Path) -> list[str]:
    """Every operation by which the service ever took in a document of *folder*, in order."""
    ours = {sha256_of(file) for file in folder.glob("*.pdf")}
    record = services.control("GET", "/_told")["submitted"]
    return [each["operation"] for each in record if each["sha256"] in ours]


def sha256_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def looks(services: Served) -> int:
    return len([each for each in services.heard() if LOOKS in each["path"]])


def calls(psql: psycopg.Connection, columns: str = "kind, state") -> list[Any]:
    return psql.execute(f"select {columns} from retoma.calls order by id").fetchall()


def due(psql: psycopg.Connection) -> None:
    psql.execute("update retoma.jobs set run_at = now() where state = 'queued'")


async def finished(app: Retoma, psql: psycopg.Connection, job: int) -> Job:
    """The job, once it has ended, however many attempts that takes."""
    async with asyncio.timeout(60):
        while not (found := await app.jobs.get(job)).state.ended:
            due(psql)
            await drain(app)
    return found


async def until(look: Any) -> None:
    async with asyncio.timeout(240):
        while not look():
            await asyncio.sleep(0.02)


async def test_what_was_handed_in_is_looked_for_until_it_is_read(
    app_with: Any, psql: psycopg.Connection, services: Served, reader: AzureExtractor, file: Path
) -> None:
    app = await app_with(read, providers={Extractor: reader})
    await app.calls.set_price("azure-documents", "prebuilt-layout", unit=Decimal("0.01"))
    job = await app.enqueue(read, str(file))
    await drain(app)

    assert (await app.jobs.output(read, job.id)).startswith("Contrato de locação")
    [operation] = submitted(services, file.parent)
    assert looks(services) == 3
    [(state, request_id, cost, units, answer)] = calls(psql, "state, request_id, cost, units, answer")
    assert (state, request_id, cost, units) == ("answered", operation, Decimal("0.03"), 3)
    assert json.loads(answer)["status"] == "succeeded"


@pytest.mark.parametrize("impatient", [hurry, short], ids=["its own time is over", "the job's time is over"])
async def test_when_time_is_over_the_next_attempt_looks_for_the_same_result(
    app_with: Any, psql: psycopg.Connection, services: Served, reader: AzureExtractor, file: Path, impatient: Any
) -> None:
    services.tell(RUNNING)
    app = await app_with(impatient, providers={Extractor: reader})
    job = await app.enqueue(impatient, str(file))
    working = asyncio.create_task(drain(app))
    await until(lambda: psql.execute("select from retoma.attempts where ending = 'failed'").fetchall())
    services.tell()
    await working

    assert (await finished(app, psql, job.id)).state is JobState.COMPLETED
    assert len(submitted(services, file.parent)) == 1
    assert calls(psql, "kind, state, error") == [("first", "answered", None)]
    assert [each.failures for each in await app.calls.limits()] == [0, 0], "a slow reader is not a broken one"


async def test_who_is_cancelled_stops_looking_and_leaves_it_to_the_next(
    app_with: Any, psql: psycopg.Connection, services: Served, reader: AzureExtractor, file: Path
) -> None:
    services.tell(RUNNING)
    app = await app_with(read, providers={Extractor: reader}, heartbeat_seconds=0.05, lease_seconds=5)
    job = await app.enqueue(read, str(file))
    working = asyncio.create_task(drain(app))
    await until(lambda: looks(services) > 1)
    await app.jobs.cancel(job.id)
    await working

    assert (await app.jobs.get(job.id)).state is JobState.CANCELLED
    assert calls(psql, "state, awaited_until <= clock_timestamp()") == [("open", True)]
    services.tell()
    await app.jobs.retry(job.id)
    await drain(app)
    assert (await app.jobs.get(job.id)).state is JobState.COMPLETED
    assert len(submitted(services, file.parent)) == 1
    assert calls(psql) == [("first", "answered")]


async def test_another_job_that_asks_for_the_same_goes_on_with_what_a_failed_one_left(
    app_with: Any, psql: psycopg.Connection, services: Served, reader: AzureExtractor, file: Path
) -> None:
    services.tell(RUNNING)
    app = await app_with(once, read, providers={Extractor: reader})
    await app.calls.set_price("azure-documents", "prebuilt-layout", unit=Decimal("0.01"))
    first = await app.batch(once, [str(file)], name="first", budget=Decimal("0.05"))
    await drain(app)
    services.tell()
    second = await app.batch(read, [str(file)], name="second", budget=Decimal("0.05"))
    await drain(app)

    assert [(await app.jobs.get(each.id)).state for each in await app.jobs.find(batch_id=first.id)] == [JobState.FAILED]
    assert [(await app.jobs.get(each.id)).state for each in await app.jobs.find(batch_id=second.id)] == [
        JobState.COMPLETED
    ]
    assert len(submitted(services, file.parent)) == 1
    spent = psql.execute("select name, spent, reserved from retoma.batches order by id").fetchall()
    assert spent == [("first", Decimal("0.03"), 0), ("second", 0, 0)], "who handed it in pays"
    assert await app.system.verify() == []


async def test_a_result_that_is_gone_is_handed_in_anew_at_once_and_the_first_is_in_doubt(
    app_with: Any, psql: psycopg.Connection, services: Served, reader: AzureExtractor, file: Path
) -> None:
    services.tell(RUNNING)
    app = await app_with(hurry, providers={Extractor: reader})
    await app.calls.set_price("azure-documents", "prebuilt-layout", unit=Decimal("0.01"))
    batch = await app.batch(hurry, [str(file)], name="x", budget=Decimal(1))
    working = asyncio.create_task(drain(app))
    await until(lambda: psql.execute("select from retoma.attempts where ending = 'failed'").fetchall())
    services.tell(Fault(kind="answer", status=404, path=LOOKS))
    await working

    [job] = await app.jobs.find(batch_id=batch.id)
    assert (await finished(app, psql, job.id)).state is JobState.COMPLETED
    assert len(submitted(services, file.parent)) == 2
    assert calls(psql, "kind, state, status") == [("first", "doubtful", 404), ("again", "answered", None)]
    [spend] = await app.calls.spend("batch")
    assert (spend.useful, spend.again, spend.doubtful) == (0, Decimal("0.03"), Decimal("0.01"))
    assert await app.system.verify() == []


async def test_what_was_handed_in_and_is_gone_at_once_is_not_handed_in_again_and_again(
    app_with: Any, psql: psycopg.Connection, services: Served, reader: AzureExtractor, file: Path
) -> None:
    services.tell(Fault(kind="answer", status=404, path=LOOKS, times=None))
    app = await app_with(read, providers={Extractor: reader})
    job = await app.enqueue(read, str(file))
    for _ in range(4):
        due(psql)
        await drain(app)

    assert (await app.jobs.get(job.id)).state is JobState.FAILED
    assert len(submitted(services, file.parent)) == 3, "once for each attempt"
    assert calls(psql) == [("first", "doubtful"), ("again", "doubtful"), ("again", "doubtful")]


async def test_after_a_day_nobody_looks_for_a_result_any_more(
    app_with: Any, psql: psycopg.Connection, services: Served, reader: AzureExtractor, file: Path
) -> None:
    services.tell(RUNNING)
    app = await app_with(once, read, providers={Extractor: reader})
    await app.enqueue(once, str(file))
    await drain(app)
    services.tell()
    psql.execute("update retoma.calls set asked_at = now() - interval '24 hours'")
    job = await app.enqueue(read, str(file))
    await drain(app)

    assert (await app.jobs.get(job.id)).state is JobState.COMPLETED
    assert calls(psql) == [("first", "doubtful"), ("again", "answered")]
    assert len(submitted(services, file.parent)) == 2


async def test_a_limited_look_costs_no_attempt_and_nobody_looks_before_the_time_that_was_said(
    app_with: Any, psql: psycopg.Connection, services: Served, reader: AzureExtractor, tmp_path: Path
) -> None:
    services.tell(Fault(kind="answer", status=429, headers={"retry-after": "600"}, path=LOOKS))
    app = await app_with(read, providers={Extractor: reader})
    first = await app.enqueue(read, str(written(tmp_path / "one.pdf")))
    await drain(app)
    second = await app.enqueue(read, str(written(tmp_path / "two.pdf")))
    await drain(app)

    found = [await app.jobs.get(each.id) for each in (first, second)]
    assert [(each.state, each.attempt) for each in found] == [(JobState.QUEUED, 0)] * 2
    assert {each.reason for each in found} == {f"limited: {LIMIT}/{reader.account}/results"}
    assert psql.execute("select bool_and(run_at > now() + interval '500 seconds') from retoma.jobs").fetchone() == (
        True,
    )
    assert looks(services) == 1, "nobody looks while it cools"
    assert len(submitted(services, tmp_path)) == 2, "what may be handed in is another matter"
    psql.execute("update retoma.limits set cooled_until = now()")
    due(psql)
    await drain(app)
    assert [(await app.jobs.get(each.id)).state for each in (first, second)] == [JobState.COMPLETED] * 2
    assert len(submitted(services, tmp_path)) == 2
    assert calls(psql) == [("first", "answered")] * 2


async def test_a_pause_longer_than_the_time_that_is_left_is_kept_by_the_next_attempt(
    app_with: Any, psql: psycopg.Connection, services: Served, reader: AzureExtractor, file: Path
) -> None:
    services.tell(Fault(kind="answer", body='{"status": "running"}', headers={"retry-after": "900"}, path=LOOKS))
    app = await app_with(read, providers={Extractor: reader})
    job = await app.enqueue(read, str(file))
    await drain(app)

    found = await app.jobs.get(job.id)
    assert (found.state, found.attempt, found.reason) == (JobState.QUEUED, 1, "ProviderTimeout")
    assert psql.execute("select run_at > now() + interval '800 seconds' from retoma.jobs").fetchone() == (True,)
    assert looks(services) == 1


async def test_no_place_of_a_limit_is_held_while_a_document_is_read(
    app_with: Any, services: Served, reader: AzureExtractor, tmp_path: Path
) -> None:
    services.tell(RUNNING)
    app = await app_with(read, providers={Extractor: reader})
    await app.calls.set_limit(LIMIT, at_once=1)
    jobs = [await app.enqueue(read, str(written(tmp_path / f"{number}.pdf"))) for number in range(3)]
    working = asyncio.create_task(drain(app))
    await until(lambda: len(submitted(services, tmp_path)) == 3)
    services.tell()
    await working

    assert [(await app.jobs.get(each.id)).state for each in jobs] == [JobState.COMPLETED] * 3


async def test_equal_documents_at_the_same_moment_are_handed_in_once(
    app_with: Any, psql: psycopg.Connection, services: Served, reader: AzureExtractor, file: Path
) -> None:
    app = await app_with(read, providers={Extractor: reader})
    jobs = await app.enqueue_many(read, [str(file)] * 5)
    await drain(app)

    assert [(await app.jobs.get(each.id)).state for each in jobs] == [JobState.COMPLETED] * 5
    assert len(submitted(services, file.parent)) == 1
    assert calls(psql, "kind, state, reused") == [("first", "answered", 4)]


@pytest.mark.parametrize(
    ("fault", "noted"),
    [
        (Fault(kind="answer", status=500, path=LOOKS), "ProviderDown"),
        (Fault(kind="garbage", path=LOOKS), "AnswerUnreadable"),
        (Fault(kind="cut", path=LOOKS), "ProviderDown"),
    ],
    ids=["an error", "garbage", "cut"],
)
async def test_a_look_that_fails_is_an_attempt_and_the_document_is_not_handed_in_again(
    app_with: Any,
    psql: psycopg.Connection,
    services: Served,
    reader: AzureExtractor,
    file: Path,
    fault: Fault,
    noted: str,
) -> None:
    services.tell(fault)
    app = await app_with(once, read, providers={Extractor: reader})
    failed = await app.enqueue(once, str(file))
    await drain(app)
    [(state, error)] = calls(psql, "state, error")
    job = await app.enqueue(read, str(file))
    await drain(app)

    assert (await app.jobs.get(failed.id)).state is JobState.FAILED
    assert (state, error.partition(":")[0]) == ("open", noted)
    assert (await app.jobs.get(job.id)).state is JobState.COMPLETED
    assert len(submitted(services, file.parent)) == 1


@pytest.mark.parametrize(
    ("error", "states"),
    [
        ({"code": "InvalidRequest", "innererror": {"code": "InvalidContent", "message": "Corrupt"}}, ["failed"]),
        ({"code": "InternalServerError", "message": "An unexpected error occurred."}, ["doubtful", "answered"]),
    ],
    ids=["the document is at fault", "the service is at fault"],
)
async def test_a_reading_that_failed_is_over(
    app_with: Any,
    psql: psycopg.Connection,
    services: Served,
    reader: AzureExtractor,
    file: Path,
    error: object,
    states: list[str],
) -> None:
    services.tell(Fault(kind="answer", body=json.dumps({"status": "failed", "error": error}), path=LOOKS))
    app = await app_with(read, providers={Extractor: reader})
    job = await app.enqueue(read, str(file))
    await drain(app)
    due(psql)
    await drain(app)

    assert (await app.jobs.get(job.id)).state is (JobState.COMPLETED if "answered" in states else JobState.FAILED)
    assert [state for (state,) in calls(psql, "state")] == states


async def test_another_throw_goes_on_with_its_own_and_with_no_other(
    app_with: Any, psql: psycopg.Connection, services: Served, reader: AzureExtractor, file: Path
) -> None:
    services.tell(RUNNING)
    app = await app_with(throws, providers={Extractor: reader})
    job = await app.enqueue(throws, str(file))
    working = asyncio.create_task(drain(app))
    await until(lambda: psql.execute("select from retoma.attempts where ending = 'failed'").fetchall())
    services.tell()
    await working

    assert (await finished(app, psql, job.id)).state is JobState.COMPLETED
    assert len(submitted(services, file.parent)) == 2
    assert calls(psql, "step, kind, state") in (
        [("one", "first", "answered"), ("two", "first", "answered")],
        [("two", "first", "answered"), ("one", "first", "answered")],
    )


async def test_a_rehearsal_hands_in_and_looks_without_a_database(reader: AzureExtractor, file: Path) -> None:
    found = await rehearse(read, str(file), extractor=reader)

    assert found.output.startswith("Contrato de locação")
