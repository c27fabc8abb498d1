"""The console's overview, its batches and the page of a batch, over HTTP: what they show, and what their forms do."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import psycopg
import pytest

from retoma.web.words import LANGUAGES, phrase

from .conftest import House, code

HTML = {"Accept": "text/html"}
TABS = ("documents", "errors", "steps", "charts", "timeline", "costs", "configuration", "history")


def made(house: House, pipeline: str = "double", inputs: Any = (1, 2, 3), **options: Any) -> int:
    """A batch, queued."""
    jobs = [{"input": each, "key": f"doc-{place}"} for place, each in enumerate(inputs)]
    order = {"pipeline": pipeline, "name": f"letters of {pipeline}", "jobs": jobs, **options}
    return int(house.post("/batches", order).json()["id"])


def page(house: House, path: str, language: str = "en", **headers: str) -> str:
    answered = house.client.get(f"/console/{path}", headers={**HTML, "Accept-Language": language, **headers})
    assert answered.status_code == 200, answered.text
    return answered.text


def region(house: House, path: str, name: str) -> str:
    return page(house, path, **{"HX-Request": "true", "HX-Target": f"section#{name}"})


def sent(house: House, path: str, headers: dict[str, str] | None = None, **fields: str) -> str:
    """Where a form leads."""
    answered = house.client.post(f"/console/{path}", data=fields, headers={**HTML, **(headers or {})})
    assert answered.status_code == 303, answered.text
    return answered.headers["location"]


# — the overview —


def test_the_overview_says_what_waits_and_what_to_do_when_nobody_works(house: House) -> None:
    made(house)

    shown = page(house, "")

    assert 'id="unwell-no_workers"' in shown
    assert "Start a worker" in shown
    assert "retoma worker" in shown
    assert re.search(r'id="card-waiting".*?figure-value">3<', shown, re.DOTALL)
    assert "letters of double" in shown


def test_an_idle_overview_says_what_to_do_next(house: House) -> None:
    shown = page(house, "")

    assert "Nothing is under way" in shown
    assert "No job failed in the last 24 hours" in shown
    assert 'href="/console/new"' in shown


def test_the_overview_over_the_api_counts_what_the_page_shows(house: House) -> None:
    made(house, "stumble", ["1", "2"])
    house.work()
    made(house)

    now = house.get("/overview").json()

    assert (now["queued"], now["failed_lately"], now["batches"]["completed"], now["batches"]["queued"]) == (3, 2, 1, 1)
    [trouble] = now["errors"]
    assert (trouble["jobs"], trouble["reason"]) == (2, "ValueError")
    assert "cannot read" in trouble["example"]


def test_the_words_of_errors_on_the_overview_are_content(house: House) -> None:
    made(house, "stumble", ["1"])
    house.work()
    reader = house.key("read")

    assert "cannot read" not in page(house, "", **reader)
    assert "ValueError" in page(house, "", **reader)
    assert "example" not in house.get("/overview", headers=reader).json()["errors"][0]
    assert "cannot read" in page(house, "", **house.key("read", "content:read"))


def test_the_overview_is_a_stream_that_tells_when_something_changes(house: House) -> None:
    with house.client.stream("GET", "/api/v1/overview", headers={"Accept": "text/event-stream"}) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        first = next(line for line in lines if line.startswith("data:"))
        made(house)
        following = next(line for line in lines if line.startswith("data:") and '"queued":3' in line)

    assert '"queued":0' in first
    assert '"batches"' in following


def test_a_stream_of_the_overview_ends_with_its_key(house: House) -> None:
    house.key("read", "admin")
    text, key = house.ask(lambda app: app.access.create("stream", ("read",)))
    headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {text}"}
    with house.client.stream("GET", "/api/v1/overview", headers=headers) as stream:
        lines = stream.iter_lines()
        next(line for line in lines if line.startswith("data:"))
        house.ask(lambda app: app.access.revoke(key.id))
        rest = list(lines)

    assert any("signed_out" in line for line in rest)


# — the batches —


def test_a_list_of_batches_has_counts_and_needs_no_request_per_row(house: House) -> None:
    id = made(house, "stumble", ["a", "b", "c"])
    house.work()

    [row] = house.get("/batches").json()["batches"]

    assert (row["id"], row["standing"]["failed"], row["standing"]["done"], row["standing"]["total"]) == (id, 3, 3, 3)
    assert row["standing"]["percent"] == 100
    alone = house.get(f"/batches/{id}/progress").json()
    assert {name: row["standing"][name] for name in row["standing"]} == {name: alone[name] for name in row["standing"]}


def test_filters_are_in_the_address_and_pages_follow_each_other(house: House) -> None:
    first = made(house, labels={"team": "legal"})
    second = made(house, "anything", [1])

    assert f"/console/batches/{first}" in page(house, "batches?label=team%3Dlegal")
    assert f"/console/batches/{second}" not in page(house, "batches?label=team%3Dlegal")
    assert f"/console/batches/{second}" in page(house, "batches?pipeline=anything&state=queued&q=ANYTH")
    assert "No batch fits these filters" in page(house, "batches?state=stalled")
    older = house.get("/batches", params={"limit": 1}).json()["next"]
    shown = page(house, f"batches?cursor={older}")
    assert f"/console/batches/{first}" in shown
    assert f'href="/console/batches/{second}"' not in shown


def test_an_empty_house_says_how_to_start_a_batch(house: House) -> None:
    assert "There are no batches yet" in page(house, "batches")


def test_what_is_filtered_comes_as_csv_and_no_cell_is_a_formula(house: House) -> None:
    made(house, labels={"team": "legal"})
    house.post("/batches", {"pipeline": "double", "name": "=1+1", "jobs": [{"input": 1}]})

    answered = house.client.get("/console/batches.csv?pipeline=double")
    few = house.client.get("/console/batches.csv?label=team%3Dlegal")

    rows = list(csv.DictReader(io.StringIO(answered.text.removeprefix("\ufeff"))))
    assert answered.headers["content-type"].startswith("text/csv")
    assert [(each["name"], each["state"], each["total"], each["queued"]) for each in rows] == [
        ("'=1+1", "queued", "1", "1"), ("letters of double", "queued", "3", "3")
    ]  # fmt: skip
    assert len(few.text.splitlines()) == 2


def test_a_key_of_one_pipeline_sees_its_batches_and_no_others(house: House) -> None:
    mine, others = made(house), made(house, "anything", [1])
    key = house.key("read", pipelines=("double",))

    shown = page(house, "batches", **key)

    assert f'href="/console/batches/{mine}"' in shown
    assert f'href="/console/batches/{others}"' not in shown
    assert house.client.get(f"/console/batches/{others}", headers={**HTML, **key}).status_code == 404


# — a batch —


def test_the_mosaic_is_one_letter_for_each_job_and_each_place_leads_to_its_job(house: House) -> None:
    id = made(house, "stumble", ["a", "b"])
    house.work()
    ids = [each["id"] for each in house.get(f"/batches/{id}/jobs").json()["jobs"]]

    told = house.get(f"/batches/{id}/mosaic").json()
    led = house.client.get(f"/console/batches/{id}/at?place=1", headers=HTML)

    assert told == {"letters": "ff", "total": 2}
    assert 'data-letters="ff"' in region(house, f"batches/{id}", "mosaic")
    assert (led.status_code, led.headers["location"]) == (303, f"/console/jobs/{ids[1]}")
    assert house.client.get(f"/console/batches/{id}/at?place=2", headers=HTML).status_code == 404


def test_ten_thousand_jobs_are_one_small_answer(house: House, psql: psycopg.Connection) -> None:
    id = made(house, inputs=[1])
    psql.execute(
        "insert into retoma.jobs (batch_id, queue, lane_id, pipeline, key, max_attempts, timeout_seconds, input)"
        " select batch_id, queue, lane_id, pipeline, 'k' || number, 3, 60, '1' from retoma.jobs,"
        " generate_series(1, 9999) as number where batch_id = %s",
        [id],
    )

    answered = house.get(f"/batches/{id}/mosaic")

    assert len(answered.json()["letters"]) == 10_000
    assert int(answered.headers.get("content-length", 0)) < 1000, "compressed on the wire"


def test_jobs_of_an_error_group_are_a_filter_of_the_jobs_of_a_batch(house: House, psql: psycopg.Connection) -> None:
    id = made(house, "stumble", ["1", "2", "3"])
    house.work()
    psql.execute("update retoma.jobs set error = 'OSError: no room' where key = 'doc-1'")
    marks = [each["fingerprint"] for each in house.get(f"/batches/{id}/errors").json()["errors"]]

    found = {mark: house.get(f"/batches/{id}/jobs", params={"error_group": mark}).json()["jobs"] for mark in marks}

    assert sorted(len(each) for each in found.values()) == [1, 2]
    [alone] = next(each for each in found.values() if len(each) == 1)
    assert (alone["key"], alone["error"]) == ("doc-1", "OSError: no room")
    assert [each["key"] for each in house.get(f"/batches/{id}/jobs", params={"q": "C-2"}).json()["jobs"]] == ["doc-2"]
    assert code(house.get(f"/batches/{id}/jobs", params={"error_group": "x"}))[0] == 422
    assert "error" not in house.get(f"/batches/{id}/jobs", headers=house.key("read")).json()["jobs"][0]


def test_series_have_what_ended_in_few_stretches(house: House) -> None:
    id = made(house, inputs=range(20))
    house.work()

    buckets = house.get(f"/batches/{id}/series", params={"buckets": 5}).json()["buckets"]

    assert sum(each["done"] for each in buckets) == 20
    assert 0 < len(buckets) <= 6
    assert all(each["median_seconds"] is not None for each in buckets)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_tab_reads_in_both_languages_with_and_without_content(house: House, language: str) -> None:
    id, empty = made(house, "stumble", ["1", "2"]), made(house, "wait", ["x"])
    house.work()
    reader = house.key("read")
    privy = house.key("read", "content:read", "operate")

    for tab in TABS:
        without = page(house, f"batches/{id}?tab={tab}", language, **reader)
        whole = page(house, f"batches/{id}?tab={tab}", language, **privy)
        assert phrase(language, f"console.batch.tab.{tab}") in without
        assert "cannot read" not in without, tab
        assert ("cannot read" in whole) == (tab in {"documents", "errors"}), tab
    for tab in TABS:
        page(house, f"batches/{empty}?tab={tab}", language, **privy)


def test_a_stalled_batch_is_explained_with_a_button_and_a_command(house: House, psql: psycopg.Connection) -> None:
    id = stalled(house, psql)

    shown = page(house, f"batches/{id}")

    assert "This batch is stalled" in shown
    assert 'id="stuck-resume"' in shown or "Go to the workers" in shown
    assert f"retoma batch resume {id}" in shown or "retoma worker" in shown
    assert "What this is based on" in shown


def test_the_plan_is_shown_before_a_resume_and_the_resume_follows_it(house: House, psql: psycopg.Connection) -> None:
    id = stalled(house, psql)

    plan = page(house, f"batches/{id}/resume")
    epoch = re.search(r"/resume\?epoch=(\d+)", plan)
    assert epoch
    assert house.get(f"/batches/{id}").json()["state"] == "stalled", "to look at the plan changes nothing"
    assert re.search(r'id="set-skips".*?<a href="/console/batches/\d+\?tab=documents&amp;set=skips#tab">1</a>', plan)
    place = sent(house, f"batches/{id}/resume?epoch={epoch[1]}")

    assert house.get(f"/batches/{id}").json()["state"] == "running"
    assert place.startswith(f"/console/batches/{id}?said=")
    sent(house, f"batches/{id}/pause")
    stale = house.client.post(f"/console/batches/{id}/resume?epoch={epoch[1]}", headers=HTML)
    assert stale.status_code == 409, "it is not as it was when the plan was shown"


def stalled(house: House, psql: psycopg.Connection) -> int:
    """A batch of which one job is done, and that then stalled."""
    id = made(house, inputs=[1])
    house.work()
    psql.execute(
        "insert into retoma.jobs (batch_id, queue, lane_id, pipeline, key, max_attempts, timeout_seconds, input)"
        " select batch_id, queue, lane_id, pipeline, 'later', 3, 60, '1' from retoma.jobs where batch_id = %s",
        [id],
    )
    psql.execute("update retoma.batches set state = 'running', was = 'completed', total = 2, unfinished = 1,"
                 " finished_at = null, last_progress_at = now() - interval '1 hour' where id = %s", [id])  # fmt: skip
    psql.execute("update retoma.batches set state = 'stalled', was = 'running', stalled_at = now(), reason = 'silent',"
                 " cause = '{\"verdict\": \"silent\"}' where id = %s", [id])  # fmt: skip
    return id


def test_forms_pause_retry_a_group_and_cancel(house: House) -> None:
    id = made(house, "stumble", ["1", "2"])
    house.work()
    mark = house.get(f"/batches/{id}/errors").json()["errors"][0]["fingerprint"]

    assert "said=retried" in sent(house, f"batches/{id}/retry?group={mark}")
    assert house.get(f"/batches/{id}/progress").json()["queued"] == 2
    assert "said=paused" in sent(house, f"batches/{id}/pause")
    assert house.get(f"/batches/{id}").json()["state"] == "paused"
    assert "Cancel this batch?" in page(house, f"batches/{id}/cancel")
    assert house.get(f"/batches/{id}").json()["state"] == "paused", "the question changes nothing"
    assert "said=cancelled" in sent(house, f"batches/{id}/cancel")
    assert house.get(f"/batches/{id}").json()["state"] == "cancelled"


def test_only_the_ticked_jobs_of_this_batch_are_tried_again(house: House) -> None:
    id, other = made(house, "stumble", ["a", "b"]), made(house, "stumble", ["c"])
    house.work()
    first, second = (each["id"] for each in house.get(f"/batches/{id}/jobs").json()["jobs"])
    [strange] = (each["id"] for each in house.get(f"/batches/{other}/jobs").json()["jobs"])

    place = sent(house, f"batches/{id}/retry-ticked", **{f"job-{first}": "1", f"job-{strange}": "1", "job-x": "1"})

    assert "said=retried" in place
    states = [house.get(f"/jobs/{each}").json()["state"] for each in (first, second, strange)]
    assert states == ["queued", "failed", "failed"]


def test_a_budget_is_changed_by_a_form_and_a_wrong_one_is_refused(house: House) -> None:
    id = made(house)

    sent(house, f"batches/{id}/change", name="Cartas", budget="12,50", max_resumes="5")
    refused = house.client.post(f"/console/batches/{id}/change", data={"budget": "plenty"}, headers=HTML)

    now = house.get(f"/batches/{id}").json()
    assert (now["name"], now["budget"], now["max_resumes"]) == ("Cartas", "12.50", 5)
    assert refused.status_code == 422


def test_a_button_that_cannot_be_used_says_why(house: House) -> None:
    id = made(house)
    shown = page(house, f"batches/{id}")
    crossed = house.client.post(f"/console/batches/{id}/pause", headers={**HTML, "Sec-Fetch-Site": "cross-site"})
    reader = house.key("read")
    read = page(house, f"batches/{id}", **reader)

    assert "it starts by itself as soon as a worker is free" in shown
    assert "no job has failed" in shown
    assert read.count("your key may only look: the scope operate is missing.") == 4
    for path in ("resume", "retry", "pause", "cancel", "retry-ticked", "change"):
        refused = house.client.post(f"/console/batches/{id}/{path}", headers={**HTML, **reader})
        assert refused.status_code == 403, path
    assert crossed.status_code == 403, "a page of another site asked"


def test_a_region_is_fetched_alone(house: House) -> None:
    id = made(house)

    for name in ("summary", "mosaic", "tab"):
        text = region(house, f"batches/{id}", name)
        assert text.strip().startswith(f'<section id="{name}"'), name
        assert "<html" not in text
    assert region(house, "batches", "listed").strip().startswith('<section id="listed"')
    assert region(house, "", "glance").strip().startswith('<div id="glance"')


def test_the_charts_are_loaded_on_their_tab_only(house: House) -> None:
    id = made(house)

    assert "uPlot" in page(house, f"batches/{id}?tab=charts")
    assert "uPlot" not in page(house, f"batches/{id}")
    assert "uPlot" not in page(house, "")
