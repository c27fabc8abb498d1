"""The last step of a batch over HTTP: in the answers of the API, on its page and in the plan."""

from __future__ import annotations

import asyncio

import pytest

from retoma import BatchEnd, Retoma, Retry, Run, pipeline
from retoma.testing import drain

from .conftest import Open

BROKEN: list[bool] = []
HTML = {"Accept": "text/html"}


@pipeline("sum-up", retry=Retry(attempts=1))
async def sum_up(batch: BatchEnd, run: Run) -> int:
    total = await run.step("count", lambda: batch.total)
    if BROKEN:
        raise ValueError("nobody takes it")
    return total


@pipeline("letter", finish=sum_up)
async def letter(number: int, _run: Run) -> int:
    return number


@pytest.mark.parametrize(("language", "waits", "failed"), [
    ("en", "sum-up begins when 2 more jobs have ended", "its last step (sum-up) failed"),
    ("pt", "sum-up começa quando mais 2 tarefas terminarem", "A última etapa (sum-up) falhou"),
])  # fmt: skip
def test_it_is_told_while_it_waits_when_it_failed_and_in_the_plan(
    open_house: Open, language: str, waits: str, failed: str
) -> None:
    house = open_house(pipelines=(letter,))
    order = {"pipeline": "letter", "name": "post", "jobs": [{"input": 1}, {"input": 2}]}
    id = house.post("/batches", order).json()["id"]

    def page(path: str = "") -> str:
        answered = house.client.get(f"/console/batches/{id}{path}", headers={**HTML, "Accept-Language": language})
        assert answered.status_code == 200, answered.text
        return answered.text

    before, told = page(), house.get(f"/batches/{id}").json()["finish"]
    BROKEN.append(True)
    try:
        asyncio.run(drain(Retoma(settings=house.settings, pipelines=[letter])))
    finally:
        BROKEN.clear()
    after, progress = page(), house.get(f"/batches/{id}/progress").json()

    assert waits in before
    assert (told["pipeline"], told["state"], told["waits_for"]) == ("sum-up", "waiting", 2)
    assert failed in after
    assert f'/console/jobs/{told["job_id"]}"' in after
    assert (progress["state"], progress["reason"], progress["done"]) == ("failed", "finish", 2)
    assert (progress["finish"]["state"], progress["finish"]["steps"]) == ("failed", 1)
    assert 'id="plan-finish"' in page("/resume")
    assert house.get(f"/batches/{id}/plan").json()["finish"] == "continues"
