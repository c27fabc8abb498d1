"""The words of errors may say what documents say: without content:read nobody is told them, anywhere."""

import json
from typing import Any

import pytest

from retoma import Retry, Run, pipeline

from .conftest import PIPELINES, House, Open

SECRET = "patient John Doe has diabetes"


@pipeline("ailing", retry=Retry(attempts=5, wait=3600.0))
async def ailing(number: int, run: Run) -> int:
    await run.step("look", lambda: number)
    raise ValueError(SECRET)


@pytest.fixture
def house(open_house: Open) -> House:
    return open_house(pipelines=(*PIPELINES, ailing))


async def stall(app: Any, id: int) -> None:
    """Its jobs have failed for an hour, before the eyes of a worker that is alive."""
    async with app.transaction() as connection:
        await connection.execute(
            "update retoma.batches set state = 'running', was = 'queued', started_at = now() - interval '1 hour',"
            " last_progress_at = now() - interval '1 hour' where id = %s",
            [id],
        )
        await connection.execute(
            "insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds,"
            " lease_expires_at) values ('ana', 'here', 1, '0', '{ailing}', '{ailing}', 1, 60, now() + interval '1 h')"
        )
        await connection.execute(
            "insert into retoma.attempts (job_id, fence, attempt, worker_id, ending, reason, error, claimed_at)"
            " select job.id, 1000 + number, number, worker.id, 'failed', 'ValueError', %s, now()"
            " from retoma.jobs as job, retoma.workers as worker, generate_series(1, 3) as number"
            " where job.batch_id = %s and worker.label = 'ana'",
            [f"ValueError: {SECRET}", id],
        )
        await connection.execute(
            "update retoma.jobs set run_at = now() - interval '1 hour', fence = 2000 where batch_id = %s", [id]
        )
    did = await app.batches.look_after()
    assert [str(why.verdict) for why in did.stalled] == ["failing"]


@pytest.fixture
def stalled(house: House) -> int:
    made = house.post("/batches", {"pipeline": "ailing", "name": "x", "jobs": [{"input": 1}, {"input": 2}]})
    id = int(made.json()["id"])
    house.ask(lambda app: stall(app, id))
    return id


def everything(house: House, id: int, key: dict[str, str]) -> dict[str, str]:
    """All that is told of a batch, by where."""
    told = {
        path: house.get(path, headers=key).text
        for path in (
            f"/batches/{id}", "/batches", f"/batches/{id}/explanation", f"/batches/{id}/events", f"/events?batch={id}",
            f"/batches/{id}/progress", f"/batches/{id}/errors", f"/batches/{id}/plan", f"/batches/{id}/steps",
            f"/jobs?batch_id={id}", f"/batches/{id}/operations",
        )
    }  # fmt: skip
    told["português"] = house.get(f"/batches/{id}/explanation", headers={**key, "Accept-Language": "pt"}).text
    for kind in ("text/event-stream", "application/x-ndjson"):
        with house.client.stream(
            "GET", f"/api/v1/batches/{id}/events?after=0", headers={**key, "Accept": kind}
        ) as stream:
            heard = ""
            for piece in stream.iter_text():
                heard += piece
                if '"cause"' in heard:
                    break
        told[kind] = heard
    return told


def test_who_may_not_read_content_is_told_kinds_and_numbers_and_no_words(house: House, stalled: int) -> None:
    reader = house.key("read")

    told = everything(house, stalled, reader)

    assert [place for place, text in told.items() if SECRET in text or "John" in text] == []
    explained = json.loads(told[f"/batches/{stalled}/explanation"])
    assert (explained["verdict"], explained["evidence"]["bad_reason"]) == ("failing", "ValueError")
    assert explained["evidence"]["bad_endings"] >= 2
    assert "ended badly" in explained["sentence"]
    cause = json.loads(told[f"/batches/{stalled}"])["cause"]
    assert (cause["verdict"], cause["bad_reason"]) == ("failing", "ValueError")
    assert "ended badly" in cause["sentence"]
    assert "plain" not in cause


def test_who_may_read_content_is_told_the_words(house: House, stalled: int) -> None:
    told = everything(house, stalled, house.key("read", "content:read"))

    for place in (f"/batches/{stalled}/explanation", f"/batches/{stalled}/events", f"/batches/{stalled}", "português"):
        assert SECRET in told[place], place
    for place in ("text/event-stream", "application/x-ndjson", f"/events?batch={stalled}"):
        assert SECRET in told[place], place
    assert '"plain"' not in "".join(told.values())


def test_an_answer_to_a_change_tells_no_words_either(house: House, stalled: int) -> None:
    operator = house.key("read", "operate")

    told = house.client.patch(f"/api/v1/batches/{stalled}", json={"name": "y"}, headers=operator)

    assert told.status_code == 200
    assert SECRET not in told.text
    assert told.json()["cause"]["verdict"] == "failing"
