"""The edges of the API: kinds that are not bent, names that are not guessed, headers, and who may ask what."""

from typing import Any

import httpx2
import pytest

from .conftest import House, Open, code

# — kinds and names —


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"attempts": True}, "/attempts"),
        ({"attempts": "3"}, "/attempts"),
        ({"attempts": 1.5}, "/attempts"),
        ({"priority": False}, "/priority"),
        ({"delay_seconds": True}, "/delay_seconds"),
        ({"run_at": 0}, "/run_at"),
        ({"run_at": "0"}, "/run_at"),
        ({"run_at": 1_800_000_000.5}, "/run_at"),
        ({"run_at": "2026-05-01T12:00:00"}, "/run_at"),
        ({"key": 7}, "/key"),
    ],
)
def test_a_value_of_another_kind_is_not_made_to_fit(still_house: House, body: dict[str, Any], place: str) -> None:
    refused = still_house.post("/jobs", {"pipeline": "anything", "input": 1, **body})

    assert code(refused) == (422, "validation_failed")
    assert [fault["pointer"] for fault in refused.json()["errors"]] == [place]


@pytest.mark.parametrize("moment", ["0128-07-14T12:40:17Z", "1999-12-31T23:59:59Z", "2200-01-01T00:00:00Z"])
@pytest.mark.parametrize(
    ("language", "words"),
    [("en", "A time lies in the years 2000 to 2199"), ("pt-BR", "Um horário fica entre os anos 2000 e 2199.")],
)
def test_a_time_that_nobody_means_is_refused_in_words(
    still_house: House, moment: str, language: str, words: str
) -> None:
    body = {"pipeline": "anything", "input": 1, "run_at": moment}

    refused = still_house.client.post("/api/v1/jobs", json=body, headers={"Accept-Language": language})

    assert [(fault["pointer"], fault["detail"]) for fault in refused.json()["errors"]] == [("/run_at", words)]


def test_a_whole_number_may_be_written_with_a_point(house: House) -> None:
    taken = house.post("/jobs", {"pipeline": "anything", "input": 1, "attempts": 2.0, "priority": -1.0})

    assert taken.status_code == 202
    assert (house.job(taken.json()["id"]).max_attempts, house.job(taken.json()["id"]).priority) == (2, -1)


@pytest.mark.parametrize(
    "query",
    [
        "/spend?since=0.5", "/spend?since=0", "/spend?since=2026-05-01", "/workers?gone=1", "/workers?gone=yes",
        "/jobs?state=queued&state=failed", "/jobs?limit=1&limit=2", "/jobs?foo=1", "/jobs/1?foo=1", "/queues?x=",
        "/batches/1/plan?dry=true", "/prices?model=x", "/system/health?deep=true",
        "/audit?since=0.5", "/audit?foo=1", "/audit?limit=1&limit=2",
        "/audit?object=BATCH", "/audit?object=batch:1%0a2",
    ],
)  # fmt: skip
def test_a_question_that_says_something_unknown_is_refused(still_house: House, query: str) -> None:
    assert code(still_house.get(query)) == (422, "validation_failed")


def test_a_change_refuses_unknown_names_in_the_query_too(house: House) -> None:
    id = house.enqueue("double", 1)

    refused = house.post(f"/jobs/{id}/cancel?force=true")

    assert refused.json()["errors"][0]["pointer"] == "?force"
    assert house.job(id).state == "queued"


# — methods —


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/api/v1/calls/reprice", "OPTIONS, POST"),
        ("DELETE", "/api/v1/jobs", "GET, HEAD, OPTIONS, POST"),
        ("PUT", "/api/v1/batches", "GET, HEAD, OPTIONS, POST"),
        ("POST", "/livez", "GET, HEAD, OPTIONS"),
    ],
)
def test_a_method_that_is_not_there_is_405_with_all_that_are(
    still_house: House, method: str, path: str, allow: str
) -> None:
    refused = still_house.client.request(method, path)

    assert (code(refused), refused.headers["allow"]) == ((405, "method_not_allowed"), allow)


def test_head_says_what_get_would(house: House) -> None:
    house.enqueue("double", 1, delay=3600)

    for path in ("/livez", "/readyz", "/api/v1/jobs", "/api/v1/jobs/1", "/openapi.json", "/docs"):
        asked, told = house.client.get(path), house.client.head(path)
        assert (told.status_code, told.content) == (200, b""), path
        assert told.headers.get("etag") == asked.headers.get("etag"), path


@pytest.mark.parametrize("kind", ["application/x-ndjson", "text/event-stream"])
def test_a_stream_is_not_compressed(house: House, kind: str) -> None:
    jobs = [{"input": number} for number in range(50)]
    made = house.post("/batches", {"pipeline": "double", "name": "many", "jobs": jobs}).json()

    with house.client.stream("GET", made["events_url"], headers={"Accept": kind, "Accept-Encoding": "gzip"}) as stream:
        assert stream.status_code == 200
        assert "content-encoding" not in stream.headers


# — headers —

ALWAYS = {
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


@pytest.mark.parametrize("path", ["/livez", "/api/v1/jobs", "/api/v1/jobs/404", "/nowhere", "/login", "/docs"])
def test_every_answer_says_what_a_browser_must_not_do(still_house: House, path: str) -> None:
    answered = still_house.client.get(path)

    assert {name: answered.headers[name] for name in ALWAYS} == ALWAYS
    assert "camera=()" in answered.headers["permissions-policy"]
    assert "strict-transport-security" not in answered.headers


def test_only_a_proxy_that_is_believed_makes_the_browser_stay_with_https(
    open_house: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    forwarded = {"X-Forwarded-Proto": "https"}
    believed = open_house().client.get("/livez", headers=forwarded)
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "192.0.2.1")
    strange = open_house().client.get("/livez", headers=forwarded)

    assert believed.headers["strict-transport-security"] == "max-age=31536000"
    assert "strict-transport-security" not in strange.headers


# — who may ask what —


def test_the_description_needs_a_key_once_there_are_any(house: House) -> None:
    before = [house.client.get(path).status_code for path in ("/openapi.json", "/docs")]
    key = house.key("submit")

    for path in ("/openapi.json", "/docs"):
        assert code(house.client.get(path)) == (401, "auth_missing")
        assert house.client.get(path, headers=key).status_code == 200
    browser = house.client.get("/docs", headers={"Accept": "text/html"})

    assert before == [200, 200]
    assert (browser.status_code, browser.headers["location"]) == (303, "/login?next=%2Fdocs")


# — changes to a batch —


@pytest.fixture
def batch(house: House) -> int:
    made = house.post(
        "/batches",
        {
            "pipeline": "double",
            "name": "january",
            "jobs": [{"input": 1}],
            "budget": "5.00",
            "max_failure_rate": 0.5,
            "labels": {"customer": "acme"},
        },
    )
    return int(made.json()["id"])


def change(house: House, id: int, body: dict[str, Any], **headers: str) -> httpx2.Response:
    return house.client.patch(f"/api/v1/batches/{id}", json=body, headers=headers)


def test_null_lifts_a_limit_and_takes_labels_away(house: House, batch: int) -> None:
    changed = change(house, batch, {"budget": None, "max_failure_rate": None, "labels": None}).json()

    assert (changed["budget"], changed["max_failure_rate"], changed["labels"]) == (None, None, {})
    assert changed["name"] == "january"


@pytest.mark.parametrize("name", ["name", "max_resumes", "stall_seconds"])
def test_null_is_refused_where_there_must_be_something(house: House, batch: int, name: str) -> None:
    refused = change(house, batch, {name: None})

    assert code(refused) == (422, "validation_failed")
    assert refused.json()["errors"][0]["pointer"] == f"/{name}"


def test_a_configuration_holds_whatever_number_json_does(house: House) -> None:
    large = {"a": -(10**40), "b": [10**400, 1.5]}
    order = {"pipeline": "double", "name": "x", "jobs": [{"input": 1}], "configuration": large}

    made = house.post("/batches", order)

    assert made.status_code == 202, made.text
    path = f"/batches/{made.json()['id']}"
    assert house.get(path).json()["configuration"] == large
    house.post(f"{path}/cancel").raise_for_status()
    assert house.post(f"{path}/restart", {"configuration": large}).status_code == 202


def test_to_change_nothing_is_no_change(house: House, batch: int) -> None:
    before = house.get(f"/batches/{batch}").json()

    same = change(house, batch, {})

    assert (same.status_code, same.json()["epoch"], same.json()["event_seq"]) == (
        200,
        before["epoch"],
        before["event_seq"],
    )


def test_a_change_may_name_what_it_was_made_for(house: House, batch: int) -> None:
    tag = house.get(f"/batches/{batch}").headers["etag"]
    first = change(house, batch, {"name": "february"}, **{"If-Match": tag})

    late = change(house, batch, {"name": "march"}, **{"If-Match": tag})
    wrong = change(house, batch, {"name": "march"}, **{"If-Match": '"something"'})
    again = change(house, batch, {"name": "april"}, **{"If-Match": first.headers["etag"]})
    whatever = change(house, batch, {"name": "may"}, **{"If-Match": "*"})

    assert first.status_code == 200
    assert [code(each) for each in (late, wrong)] == [(412, "precondition_failed")] * 2
    assert (again.json()["name"], whatever.json()["name"]) == ("april", "may")


def test_a_change_may_name_an_epoch(house: House, batch: int) -> None:
    epoch = house.get(f"/batches/{batch}").json()["epoch"]

    assert change(house, batch, {"name": "february", "epoch": epoch}).status_code == 200
    assert code(change(house, batch, {"name": "march", "epoch": epoch})) == (409, "stale_epoch")


def test_a_batch_that_rests_because_of_its_budget_goes_on_when_it_is_lifted(house: House, batch: int) -> None:
    house.ask(lambda app: app.batches.pause(batch, reason="budget"))

    changed = change(house, batch, {"budget": None}).json()

    assert changed["state"] in ("queued", "running")
