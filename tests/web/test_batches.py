"""Batches over HTTP: made, filled, followed and acted on by callers who may repeat themselves."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from retoma.commands import operations as operation_commands

from .conftest import code


def make(house: Any, pipeline: str = "double", inputs: Any = range(5), **more: Any) -> int:
    jobs = [{"input": each, "key": f"doc-{each}"} for each in inputs]
    answer = house.post("/batches", {"pipeline": pipeline, "name": "January", "jobs": jobs, **more})
    assert answer.status_code == 202, answer.text
    return int(answer.json()["id"])


def stall(house: Any, id: int) -> None:
    """Its first job was taken long ago, by a worker that is gone."""
    house.ask(lambda app: _stalled(app, id))


async def serve(app: Any) -> None:
    """A worker that serves all there is, and takes nothing."""
    async with app.transaction() as connection:
        await connection.execute(
            "insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds,"
            " lease_expires_at) select 'ana', 'here', 1, '0', array_agg(distinct queue), array_agg(distinct pipeline),"
            " 1, 60, now() + interval '1 h' from retoma.batches"
        )


async def _stalled(app: Any, id: int) -> None:
    async with app.transaction() as connection:
        await connection.execute(
            "update retoma.batches set state = 'running', was = 'queued', started_at = now(), "
            "last_progress_at = now() - interval '1 hour' where id = %s",
            [id],
        )
        await connection.execute("update retoma.jobs set run_at = now() - interval '1 hour' where batch_id = %s", [id])
    did = await app.batches.look_after()
    assert [why.batch_id for why in did.stalled] == [id]


def test_a_batch_is_made_with_its_jobs_and_told_where_to_look(house: Any) -> None:
    answer = house.post("/batches", {"pipeline": "double", "name": "x", "jobs": [{"input": 1}], "labels": {"a": "b"}})

    assert answer.status_code == 202
    made = answer.json()
    assert answer.headers["Location"] == made["status_url"] == f"/api/v1/batches/{made['id']}"
    found = house.get(f"/batches/{made['id']}").json()
    assert (found["state"], found["total"], found["labels"]) == ("queued", 1, {"a": "b"})


def test_an_input_that_does_not_fit_is_pointed_at_and_nothing_is_made(house: Any) -> None:
    answer = house.post("/batches", {"pipeline": "double", "name": "x", "jobs": [{"input": 1}, {"input": "two"}]})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/jobs/1/input"
    assert house.get("/batches").json()["batches"] == []


def test_a_batch_is_filled_in_parts_that_may_be_sent_twice_and_then_sealed(house: Any) -> None:
    id = house.post("/batches", {"pipeline": "double", "name": "parts"}).json()["id"]
    part = {"jobs": [{"input": 1, "key": "one"}, {"input": 2, "key": "two"}]}

    assert house.post(f"/batches/{id}/jobs", part).json() == {"added": 2, "known": 0}
    assert house.post(f"/batches/{id}/jobs", part).json() == {"added": 0, "known": 2}
    house.work()
    assert house.get(f"/batches/{id}/progress").json()["queued"] == 2, "nobody takes the jobs of an open batch"
    refused = house.post(f"/batches/{id}/seal", {"expected": 3})
    assert (refused.status_code, refused.json()["code"]) == (409, "batch_incomplete")
    assert house.post(f"/batches/{id}/seal", {"expected": 2}).json()["total"] == 2
    assert house.post(f"/batches/{id}/jobs", part).json()["code"] == "batch_sealed"
    house.work()
    assert house.get(f"/batches/{id}").json()["state"] == "completed"


def test_progress_steps_errors_plan_and_explanation_are_told(house: Any) -> None:
    id = make(house, "stumble", ["a.pdf", "b.pdf"])
    house.work()

    progress = house.get(f"/batches/{id}/progress").json()
    assert (progress["state"], progress["failed"], progress["percent"]) == ("completed", 2, 100.0)
    assert house.get(f"/batches/{id}/steps").json()["steps"][0]["step"] == "look"
    [group] = house.get(f"/batches/{id}/errors").json()["errors"]
    assert group["jobs"] == 2
    assert group["first_keys"] == ["doc-a.pdf", "doc-b.pdf"]
    assert house.get(f"/batches/{id}/plan").json()["leaves_failed"] == 2
    assert house.get(f"/batches/{id}/explanation").json()["verdict"] == "completed"


def test_one_error_group_is_tried_again_and_nothing_else(house: Any) -> None:
    id = make(house, "stumble", ["a.pdf", "b.pdf"])
    house.work()
    [group] = house.get(f"/batches/{id}/errors").json()["errors"]

    other = house.post(f"/batches/{id}/retry-failed", {"fingerprint": "0" * 12}).json()
    again = house.post(f"/batches/{id}/retry-failed", {"fingerprint": group["fingerprint"]}).json()

    assert (other["changed"], other["word"]) == (False, "nothing_to_retry")
    assert (again["changed"], again["jobs"], again["state"]) == (True, 2, "running")


def test_of_fifty_resumes_at_once_one_moves_it_and_all_are_told_the_same_place(house: Any) -> None:
    id = make(house)
    stall(house, id)
    house.ask(serve)

    def resume(_: int) -> httpx2.Response:
        return httpx2.post(f"{house.url}/api/v1/batches/{id}/resume", timeout=240)

    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(resume, range(50)))

    assert {answer.status_code for answer in answers} == {202}
    assert Counter(answer.json()["word"] for answer in answers) == {"resumed": 1, "already_running": 49}
    assert {answer.headers["Location"] for answer in answers} == {f"/api/v1/batches/{id}"}
    assert house.get(f"/batches/{id}").json()["resumes"] == 1


def test_a_resume_that_nobody_can_carry_out_says_so_and_is_not_counted(house: Any) -> None:
    id = make(house)
    stall(house, id)

    told = house.post(f"/batches/{id}/resume").json()

    assert (told["word"], told["changed"], told["state"], told["resumes"]) == ("no_workers", True, "running", 0)
    assert house.post(f"/batches/{id}/resume").json()["word"] == "already_running"


def test_an_explanation_speaks_the_language_that_is_asked_for(house: Any) -> None:
    id = make(house)
    stall(house, id)

    told = {
        language: house.client.get(f"/api/v1/batches/{id}/explanation", headers={"Accept-Language": language}).json()
        for language in ("pt-BR", "en")
    }

    assert told["pt-BR"]["sentence"].startswith("Nenhum worker ativo atende a fila")
    assert told["pt-BR"]["advice"].startswith("Inicie um worker (retoma worker --queues ")
    assert told["en"]["sentence"].startswith("No live worker serves queue")
    assert told["en"]["advice"].startswith("Start a worker")
    assert {each["action"] for each in told.values()} == {"start_worker"}


def test_a_resume_past_the_limit_is_refused_with_the_way_out_and_a_raised_limit_lets_it_go_on(house: Any) -> None:
    id = make(house, max_resumes=0)
    stall_and_fail = house.ask(lambda app: _stalled_for_good(app, id))

    assert stall_and_fail == "failed"
    house.ask(serve)
    refused = house.post(f"/batches/{id}/resume")
    assert (refused.status_code, refused.json()["code"]) == (409, "resume_limit_reached")
    assert house.post(f"/batches/{id}/resume", {"max_resumes": 1}).json()["word"] == "resumed"


async def _stalled_for_good(app: Any, id: int) -> str:
    await _stalled(app, id)
    assert (await app.batches.look_after()).failed == [id]
    return str((await app.batches.get(id)).state)


def test_a_page_that_is_out_of_date_cannot_resume_by_its_epoch(house: Any) -> None:
    id = make(house)
    stall(house, id)
    epoch = house.get(f"/batches/{id}").json()["epoch"]

    stale = house.post(f"/batches/{id}/resume", {"epoch": epoch - 1})

    assert (stale.status_code, stale.json()["code"]) == (409, "stale_epoch")
    assert house.post(f"/batches/{id}/resume", {"epoch": epoch}).status_code == 202


def test_pause_cancel_restart_and_change_do_what_they_say(house: Any) -> None:
    id = make(house)

    assert house.post(f"/batches/{id}/pause", {"reason": "lunch"}).json()["state"] == "paused"
    house.work()
    assert house.get(f"/batches/{id}/progress").json()["queued"] == 5
    assert house.post(f"/batches/{id}/resume").json()["resumes"] == 0, "resuming what was paused costs nothing"
    changed = house.client.patch(f"/api/v1/batches/{id}", json={"name": "February", "max_resumes": 7}).json()
    assert (changed["name"], changed["max_resumes"]) == ("February", 7)
    assert house.post(f"/batches/{id}/cancel").json()["state"] == "cancelled"
    assert house.post(f"/batches/{id}/restart").json()["jobs"] == 5
    house.work()
    assert house.get(f"/batches/{id}").json()["state"] == "completed"
    late = house.post(f"/batches/{id}/cancel")
    assert (late.status_code, late.json()["code"]) == (409, "already_finished")


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k-1"}])
def test_a_command_on_a_large_batch_is_accepted_and_can_be_followed(
    house: Any, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    monkeypatch.setattr(operation_commands, "SMALL", 3)
    monkeypatch.setattr(operation_commands, "_AT_A_TIME", 2)
    id = make(house)

    accepted = house.post(f"/batches/{id}/cancel", headers=headers)
    assert (accepted.status_code, accepted.json()["state"]) == (202, "cancelled")
    operation = accepted.json()["operation_id"]
    give_up = time.monotonic() + 150
    while not (found := house.get(f"/batches/{id}/operations").json()["operations"])[0]["finished_at"]:
        assert time.monotonic() < give_up, found
        time.sleep(0.05)
    assert [(each["id"], each["kind"], each["done"], each["wanted"]) for each in found] == [(operation, "cancel", 5, 5)]
    now = house.get(f"/batches/{id}").json()
    assert (now["operation_id"], now["unfinished"]) == (None, 0)
    assert house.post(f"/batches/{id}/restart").json()["operation_id"] is not None


def test_the_same_idempotency_key_makes_one_batch(house: Any) -> None:
    body = {"pipeline": "double", "name": "once", "jobs": [{"input": 1}]}
    first, second = (house.post("/batches", body, headers={"Idempotency-Key": "k-1"}) for _ in range(2))

    assert first.json() == second.json()
    assert second.headers["Idempotency-Replayed"] == "true"
    assert len(house.get("/batches").json()["batches"]) == 1


def test_batches_are_found_by_state_label_and_page(house: Any) -> None:
    ids = [make(house, labels={"client": name}) for name in ("a", "b", "a")]

    assert [each["id"] for each in house.get("/batches?label=client=a").json()["batches"]] == [ids[2], ids[0]]
    assert house.get("/batches?state=failed,stalled").json()["batches"] == []
    first = house.get("/batches?limit=2").json()
    rest = house.get(f"/batches?limit=2&cursor={first['next']}").json()
    assert [each["id"] for each in [*first["batches"], *rest["batches"]]] == ids[::-1]
    assert rest["next"] is None


@pytest.mark.parametrize("path", ["", "/progress", "/events", "/plan", "/explanation", "/errors", "/steps"])
def test_a_batch_that_is_not_there_is_a_problem_not_an_empty_answer(house: Any, path: str) -> None:
    answer = house.get(f"/batches/999{path}")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_key_that_is_limited_to_other_pipelines_does_not_see_the_batch(house: Any) -> None:
    id = make(house)
    key = house.key("read", pipelines=("stumble",))

    assert house.get(f"/batches/{id}", headers=key).status_code == 404


def test_the_events_of_many_batches_are_read_each_after_its_own_number(house: Any) -> None:
    one, two = make(house), make(house)

    first = house.get(f"/events?batch={one}&batch={two}:1").json()
    assert [(each["batch_id"], each["seq"]) for each in first["events"]] == [(one, 1), (one, 2), (two, 2)]
    assert first["last"] == [f"{one}:2", f"{two}:2"]
    house.work()
    rest = house.get("/events?" + "&".join(f"batch={each}" for each in first["last"])).json()
    assert {each["kind"] for each in rest["events"]} == {"running", "jobs", "completed"}
    assert house.get("/events?batch=999").status_code == 404
    assert house.get("/events?batch=x").status_code == 422
    assert house.get("/events").status_code == 422


def test_the_houses_own_pipelines_are_not_for_batches(house: Any) -> None:
    wanted = {"pipeline": "retoma.prune", "name": "x", "jobs": [{"input": None}]}

    assert code(house.post("/batches", wanted)) == (422, "pipeline_unknown")
