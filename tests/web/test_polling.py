"""Who asks again and again is told cheaply that nothing has changed, and hears of it when something has."""

from __future__ import annotations

from typing import Any

import pytest

from retoma.app.batches import Batches
from retoma.web.http import etags

from .conftest import House, Open, code


def make(house: House, jobs: int = 3) -> int:
    wanted = {"pipeline": "double", "name": "x", "jobs": [{"input": each} for each in range(jobs)]}
    return int(house.post("/batches", wanted).json()["id"])


def again(house: House, path: str, tag: str, **headers: str) -> int:
    answered = house.get(path, headers={"If-None-Match": tag, **headers})
    assert answered.status_code in {200, 304}
    assert answered.headers["etag"] == tag or answered.status_code == 200
    return answered.status_code


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of the database that counts jobs."""
    asked: list[str] = []
    for name in ("progress", "explain"):
        plain = getattr(Batches, name)

        def counting(self: Batches, *args: Any, _name: str = name, _plain: Any = plain, **options: Any) -> Any:
            asked.append(_name)
            return _plain(self, *args, **options)

        monkeypatch.setattr(Batches, name, counting)
    return asked


def test_a_batch_that_has_ended_is_unchanged_for_ever_and_its_jobs_are_not_counted_again(
    house: House, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    id = make(house)
    house.work()
    paths = [f"/batches/{id}", f"/batches/{id}/progress", f"/batches/{id}/explanation", "/jobs/1"]
    seen = {path: house.get(path).headers["etag"] for path in paths}
    counted.clear()

    later = etags.time.time() + 86_400
    monkeypatch.setattr(etags.time, "time", lambda: later)

    assert [again(house, path, tag) for path, tag in seen.items()] == [304] * len(paths)
    assert counted == []
    house.post(f"/batches/{id}/restart").raise_for_status()
    assert [again(house, path, tag) for path, tag in seen.items()] == [200] * len(paths)


def test_a_batch_that_is_at_work_is_unchanged_until_something_happens_or_a_moment_has_passed(
    house: House, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = etags.time.time()
    monkeypatch.setattr(etags.time, "time", lambda: now)
    id = make(house)
    path = f"/batches/{id}/progress"
    tag = house.get(path).headers["etag"]
    counted.clear()

    assert (again(house, path, tag), counted) == (304, [])
    house.post(f"/batches/{id}/pause").raise_for_status()
    assert again(house, path, tag) == 200, "something happened"
    tag = house.get(path).headers["etag"]
    now += etags.LIVE_SECONDS
    assert again(house, path, tag) == 200, "its ages are others by now"


def test_a_tag_belongs_to_what_the_caller_may_see(open_house: Open) -> None:
    house = open_house()
    id = make(house)
    house.work()
    everything, plain = house.key("read", "content:read"), house.key("read")
    other = house.key("read", pipelines=("stumble",))
    path = f"/batches/{id}/progress"
    tag = house.get(path, headers=everything).headers["etag"]

    assert again(house, path, tag, **everything) == 304
    assert again(house, path, tag, **plain) == 200
    assert code(house.get(path, headers={"If-None-Match": tag, **other})) == (404, "not_found")
    assert house.get(path, headers={"If-None-Match": tag}).status_code == 401


def test_queues_are_unchanged_until_a_job_comes_or_goes(house: House) -> None:
    house.enqueue("double", 1, delay=3600)
    tag = house.get("/queues").headers["etag"]

    assert again(house, "/queues", tag) == 304
    house.enqueue("double", 2, delay=3600)
    assert again(house, "/queues", tag) == 200


@pytest.mark.parametrize("id", ["0", "-1", "x", "²", "9" * 30, "1e3"])
def test_a_number_that_is_none_is_refused_as_ever(still_house: House, id: str) -> None:
    assert still_house.get(f"/batches/{id}/progress", headers={"If-None-Match": "*"}).status_code in {404, 422}
