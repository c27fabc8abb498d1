"""The pages about jobs: errors, dead letters, one job, operations, the search, saved views."""

from __future__ import annotations

import re
from typing import Any

import pytest

from retoma.commands import bulk

from .conftest import House
from .test_operations import finished, stumbled

HTML = {"Accept": "text/html", "Accept-Language": "en"}


def page(house: House, path: str, **options: Any) -> str:
    shown = house.client.get(f"/console{path}", headers={**HTML, **options.pop("headers", {})}, **options)
    assert shown.status_code == 200, shown.text
    return shown.text


def post(house: House, path: str, headers: dict[str, str] | None = None, **fields: str) -> Any:
    return house.client.post(f"/console{path}", data=fields, headers={**HTML, **(headers or {})})


@pytest.mark.parametrize("path", ["/errors", "/dead-letters", "/operations", "/operations/new", "/search"])
def test_an_empty_page_says_what_to_do(still_house: House, path: str) -> None:
    for language in ("en", "pt"):
        shown = still_house.client.get(f"/console{path}", headers={**HTML, "Accept-Language": language})
        assert (shown.status_code, "<h1>" in shown.text) == (200, True)


def test_a_group_of_errors_is_counted_confirmed_and_retried_over_all_batches(house: House) -> None:
    ids = stumbled(house, "'a'", "'b'")
    shown = page(house, "/errors")
    group = re.search(r'data-fingerprint="(\w+)"', shown)
    assert group is not None
    asked = {"action": "retry", "state": "failed", "fingerprint": group[1]}

    question = page(house, "/operations/new", params=asked)
    begun = post(house, "/operations", **asked)

    assert "cannot read" in shown
    assert "Retry 2 jobs?" in question
    assert (begun.status_code, begun.headers["location"]) == (303, "/console/operations?told=begun")
    (operation,) = house.get("/operations").json()["operations"]
    assert finished(house, f"/api/v1/operations/{operation['id']}")["done"] == 2
    assert [house.job(each).state for each in ids] == ["queued"] * 2
    listed = page(house, "/operations")
    assert 'data-state="done"' in listed
    assert f"error group {group[1]}" in listed


def test_dead_letters_are_filtered_ticked_and_exported(house: House) -> None:
    ids = stumbled(house, "a", "b", "c")

    whole, some = page(house, "/dead-letters"), page(house, "/dead-letters", params={"key_prefix": "in/a"})
    ticked = page(house, "/operations/new", params={"action": "retry", "ids": [str(ids[0]), str(ids[2])]})
    table = house.client.get("/console/dead-letters/csv?key_prefix=in/a", headers=HTML)

    assert [whole.count("data-job="), some.count("data-job=")] == [3, 1]
    assert "3 failed jobs" in whole
    assert "Retry 2 jobs?" in ticked
    assert (table.headers["content-type"], table.text.count("\n")) == ("text/csv; charset=utf-8", 2)
    assert "cannot read a" in table.text


def test_a_page_counts_dead_letters_so_far_only_and_says_so(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_VISITED", 2)
    stumbled(house, "a", "b", "c")

    whole = page(house, "/dead-letters")

    assert "More than 2 failed jobs" in whole
    assert "Retry all…" in whole
    assert whole.count("data-job=") == 3


def test_what_a_form_says_wrongly_is_told_above_it_and_nothing_begins(house: House) -> None:
    wrong = post(house, "/operations", action="move", batch="x")
    nobody = post(house, "/operations", action="move")

    assert [each.status_code for each in (wrong, nobody)] == [422, 422]
    assert "is not the number of a job" in wrong.text
    assert "move says into which queue" in nobody.text
    assert house.get("/operations").json()["operations"] == []


def test_the_page_of_a_job_draws_its_life_and_says_why_a_button_is_not_there(house: House) -> None:
    (id,) = stumbled(house, "a")
    shown = page(house, f"/jobs/{id}")

    assert shown.count('data-note="saved"') == 1
    assert shown.count('data-note="failed"') == 1
    assert "cannot read a" in shown
    assert "Not any more: it has ended" in shown, "it cannot be cancelled"
    assert post(house, f"/jobs/{id}/retry").headers["location"] == f"/console/jobs/{id}?told=retried"
    assert house.job(id).state == "queued"
    assert "Not now: only failed" in page(house, f"/jobs/{id}")
    house.work()
    assert 'data-note="restored"' in page(house, f"/jobs/{id}"), "the step that was done before is not done again"


def test_a_job_is_restarted_from_a_step_of_its_page(house: House) -> None:
    id = house.enqueue("double", 4)
    house.work()

    asked = page(house, f"/jobs/{id}", params={"step": "double"})
    refused = post(house, f"/jobs/{id}/restart", step="nobody")
    done = post(house, f"/jobs/{id}/restart", step="double")

    assert "Done again: double." in asked
    assert (refused.status_code, "has no checkpoint" in refused.text) == (404, True)
    assert (done.headers["location"], house.job(id).state) == (f"/console/jobs/{id}?told=restarted", "queued")
    assert "Set aside: restart" in page(house, f"/jobs/{id}")


def test_a_job_is_told_what_it_waits_for_and_cancelled_with_a_reason(house: House) -> None:
    id, other = house.enqueue("wait", "x"), house.enqueue("double", 1)
    house.work()

    told = [post(house, f"/jobs/{id}/signal", name="answer", value="yes").headers["location"] for _ in range(2)]
    nameless = post(house, f"/jobs/{id}/signal", value="yes")
    late = house.enqueue("double", 2)
    post(house, f"/jobs/{late}/cancel", reason="a duplicate")
    refused = post(house, f"/jobs/{other}/cancel")

    assert [each.rpartition("=")[2] for each in told] == ["signalled", "known"]
    assert nameless.status_code == 422
    assert (house.job(late).state, house.job(late).reason) == ("cancelled", "a duplicate")
    assert (refused.status_code, house.job(other).state) == (409, "completed")


def test_a_reader_sees_no_content_and_no_buttons_and_a_forged_change_is_refused(house: House) -> None:
    (id,) = stumbled(house, "jabuticaba")
    reader = house.key("read")

    shown = [page(house, path, headers=reader) for path in (f"/jobs/{id}", "/errors", "/dead-letters")]
    forged = [
        post(house, path, headers=reader, action="retry").status_code
        for path in (f"/jobs/{id}/retry", f"/jobs/{id}/restart", f"/jobs/{id}/cancel", "/operations")
    ]

    assert ["jabuticaba" in each.replace("in/jabuticaba", "") for each in shown] == [False] * 3
    assert all("the scope operate" in each for each in shown)
    assert (forged, house.job(id).state) == ([403] * 4, "failed")


def test_a_search_leads_straight_to_the_only_hit_and_lists_several(house: House) -> None:
    id = house.enqueue("double", 1, key="inbox/lease.pdf")
    other = house.enqueue("double", 2, key="inbox/b.pdf", correlation_id="order-7")
    third = house.enqueue("double", 3, key="inbox/c.pdf", correlation_id="order-7")

    straight = house.client.get("/console/search", params={"q": "lease.pdf"}, headers=HTML)
    several = page(house, "/search", params={"q": "order-7"})
    none = page(house, "/search", params={"q": "nobody"})

    assert (straight.status_code, straight.headers["location"]) == (303, f"/console/jobs/{id}")
    assert all(f"/console/jobs/{each}" in several for each in (other, third))
    assert "You can search by the number" in none


def test_a_view_is_saved_above_a_list_and_removed(house: House) -> None:
    saved = post(house, "/views", name="weekly", page="errors", query="hours=168")
    shown = page(house, "/errors")
    (view,) = house.get("/views").json()["views"]
    post(house, f"/views/{view['id']}/remove")

    assert saved.headers["location"] == "/console/errors?hours=168"
    assert 'href="/console/errors?hours=168"' in shown
    assert ">weekly<" not in page(house, "/errors")
    assert post(house, "/views", name="x", page="nowhere", query="").status_code == 422


def test_the_raw_answer_of_a_call_needs_its_scope_and_its_own_job(house: House, psql: Any) -> None:
    id, other = house.enqueue("double", 1), house.enqueue("double", 2)
    house.work()
    [[call]] = psql.execute(
        "insert into retoma.calls (key, provider, model, request, answer, state, answered_at, job_id) "
        "values ('k', 'openai', 'gpt', '{\"a\": 1}', '{\"said\": \"jabuticaba\"}', 'answered', now(), %s) returning id",
        [id],
    ).fetchall()

    asked = {"params": {"call": str(call)}}
    assert "jabuticaba" in page(house, f"/jobs/{id}", **asked)
    assert "jabuticaba" not in page(house, f"/jobs/{id}"), "it is fetched only when it is asked for"
    assert house.client.get(f"/console/jobs/{other}", headers=HTML, **asked).status_code == 404
    assert "jabuticaba" not in page(house, f"/jobs/{id}", headers=house.key("read"), **asked)
