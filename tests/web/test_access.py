"""Who may come in: keys and scopes, hosts, other sites, and what an answer tells a browser."""

import hashlib
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from retoma.app.access.keys import SCOPES
from retoma.errors import ConfigurationError, NotFound

from .conftest import House, Open, code

ORDER = {"pipeline": "double", "input": 1}

# — keys —


def test_while_no_key_exists_whoever_is_on_this_machine_may_do_everything(house: House) -> None:
    assert house.post("/jobs", ORDER).status_code == 202
    assert house.get("/jobs/1").json()["input"] == 1
    assert house.post("/jobs/1/cancel").status_code == 200


def test_once_a_key_exists_everybody_needs_one_even_when_it_is_revoked(house: House) -> None:
    house.key("read")
    (key,) = house.ask(lambda app: app.access.keys())

    for _ in range(2):
        refused = house.get("/jobs")
        assert code(refused) == (401, "auth_missing")
        assert refused.headers["www-authenticate"] == "Bearer"
        house.ask(lambda app: app.access.revoke(key.id))


def test_unknown_expired_revoked_and_malformed_keys_get_the_same_answer(house: House, psql: psycopg.Connection) -> None:
    good, expired, revoked = house.key("read"), house.key("read", expires=timedelta(days=1)), house.key("read")
    text = good["Authorization"]
    assert house.get("/jobs", headers=expired).status_code == 200
    id = expired["Authorization"].split("_")[1]
    psql.execute("update retoma.api_keys set expires_at = now() - interval '1 second' where id = %s", [id])
    house.ask(lambda app: app.access.revoke(revoked["Authorization"].split("_")[1]))
    wrong = [text[:-1] + ("A" if text[-1] != "A" else "B"), text.replace("rtm_", "xyz_"), text[:-1], text + "A"]
    wrong += [f"Bearer rtm_{'0' * 12}_{'A' * 43}", "Bearer", "Basic YTpi", "", "Bearer é", "x" * 5000]

    answers = [house.get("/jobs", headers={"Authorization": each.encode("latin-1")}) for each in wrong]
    answers += [house.get("/jobs", headers=each) for each in (expired, revoked)]

    assert {code(each) for each in answers} == {(401, "auth_invalid")}
    assert len({(each.json()["title"], each.json()["detail"]) for each in answers}) == 1
    assert house.get("/jobs", headers=good).status_code == 200
    assert house.get("/jobs", headers={"authorization": text.replace("Bearer", "bearer")}).status_code == 200


def test_a_secret_is_kept_nowhere(house: House, psql: psycopg.Connection) -> None:
    text = house.key("read")["Authorization"].removeprefix("Bearer ")
    secret = text.split("_", 2)[2]

    rows = psql.execute("select * from retoma.api_keys").fetchall()

    assert secret not in str(rows)
    assert hashlib.sha256(secret.encode()).digest() in rows[0]
    assert len(secret) == 49


def test_the_last_use_is_noted_at_most_once_a_minute(house: House, psql: psycopg.Connection) -> None:
    def last() -> Any:
        return psql.execute("select last_used_at from retoma.api_keys").fetchone()

    key = house.key("read")
    assert last() == (None,)
    house.get("/jobs", headers=key)
    first = last()
    house.get("/jobs", headers=key)
    assert last() == first != (None,)
    psql.execute("update retoma.api_keys set last_used_at = last_used_at - interval '61 seconds'")
    house.get("/jobs", headers=key)

    assert last() > first


def test_the_key_of_the_environment_opens_everything_and_nobody_else_is_let_in(open_house: Open) -> None:
    house = open_house(api_key="a-long-secret-of-the-environment")

    assert code(house.get("/jobs")) == (401, "auth_missing")
    assert code(house.get("/jobs", headers={"Authorization": "Bearer a-long-secret"})) == (401, "auth_invalid")
    opened = {"Authorization": "Bearer a-long-secret-of-the-environment"}
    assert house.post("/jobs", ORDER, headers=opened).status_code == 202
    assert house.get("/jobs/1", headers=opened).json()["input"] == 1
    assert house.get("/jobs", headers=house.key("read")).status_code == 200


@pytest.mark.parametrize(
    ("name", "scopes", "expires", "words"),
    [
        ("", ["read"], None, "1 to 100 characters"),
        ("a\nb", ["read"], None, "1 to 100 characters"),
        ("a", [], None, "would open nothing"),
        ("a", ["read", "write"], None, "no scope write"),
        ("a", ["read"], timedelta(0), "later than now"),
    ],
)
def test_a_key_that_cannot_be_is_not_made(
    still_house: House, name: str, scopes: list[str], expires: timedelta | None, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        still_house.ask(lambda app: app.access.create(name, scopes, expires=expires))
    with pytest.raises(NotFound):
        still_house.ask(lambda app: app.access.revoke("nothing"))


# — scopes —

READING = [
    "/jobs",
    "/jobs/1",
    "/jobs/1/attempts",
    "/jobs/1/checkpoints?values=true",
    "/queues",
    "/workers",
    "/schedules",
]
READING += ["/system/health"]
OPERATING: list[tuple[str, Any]] = [
    ("/jobs/1/cancel", None),
    ("/jobs/1/restart", None),
    ("/jobs/1/signal", {"name": "a"}),
    ("/jobs/1/cancel", None),
    ("/jobs/1/retry", None),
    ("/queues/double/pause", None),
    ("/queues/double/resume", None),
    ("/queues/double/limit", {"lane": "a", "at_once": 1}),
]


def test_a_scope_opens_its_own_doors_and_no_other(house: House) -> None:
    house.enqueue("double", 1)
    for scope in SCOPES:
        key = house.key(scope)
        for path in READING:
            allowed = scope in ("read", "admin")
            answered = house.get(path, headers=key)
            assert (answered.status_code == 200) == allowed, (scope, path)
            if not allowed:
                assert code(answered) == (403, "scope_required")
                assert answered.json()["detail"] == "This key lacks the scope read."
        queued = house.post("/jobs", ORDER, headers=key)
        assert queued.status_code == (202 if scope in ("submit", "admin") else 403), scope
        for path, body in OPERATING:
            answered = house.post(path, body, headers=key)
            assert (answered.status_code < 300) == (scope in ("operate", "admin")), (scope, path)


def test_content_is_seen_with_its_scope_only(house: House) -> None:
    house.enqueue("stumble", "secret.pdf")
    house.work()
    house.ask(lambda app: app.schedules.put(app.registry.pipeline("double"), 7700770077, name="n", cron="0 4 * * *"))
    looks, reads = house.key("read"), house.key("read", "content:read")

    for path in ("/jobs/1", "/jobs/1/attempts", "/jobs/1/checkpoints?values=true", "/schedules"):
        without, whole = house.get(path, headers=looks), house.get(path, headers=reads)
        assert (without.status_code, whole.status_code) == (200, 200)
        assert not any(word in without.text for word in ("secret.pdf", "SECRET.PDF", "7700770077")), path
        assert any(word in whole.text for word in ("secret.pdf", "SECRET.PDF", "7700770077")), path
        assert without.headers["etag"] != whole.headers["etag"]
    assert not {"input", "output", "error"} & house.get("/jobs/1", headers=looks).json().keys()
    acted = house.post("/jobs/1/retry", headers=house.key("operate"))
    assert "secret.pdf" not in acted.text


# — keys of some pipelines —


def test_a_key_of_one_pipeline_sees_and_does_only_what_belongs_to_it(house: House) -> None:
    mine, other = house.enqueue("double", 1), house.enqueue("anything", 1)
    key = house.key("read", "content:read", "submit", "operate", pipelines=("double",))

    assert [job["id"] for job in house.get("/jobs", headers=key).json()["jobs"]] == [mine]
    assert house.get(f"/jobs/{mine}", headers=key).status_code == 200
    for verb in ("", "/attempts", "/checkpoints"):
        hidden, missing = (house.get(f"/jobs/{id}{verb}", headers=key) for id in (other, 999))
        assert code(hidden) == code(missing) == (404, "not_found")
        assert hidden.json()["detail"] == missing.json()["detail"].replace("999", str(other))
    for verb in ("retry", "cancel", "restart"):
        assert code(house.post(f"/jobs/{other}/{verb}", headers=key)) == (404, "not_found")
    assert code(house.post(f"/jobs/{other}/signal", {"name": "a"}, headers=key)) == (404, "not_found")
    assert house.job(other).state == "queued"
    assert house.post("/jobs", ORDER, headers=key).status_code == 202
    refused = house.post("/jobs", {"pipeline": "anything", "input": 1}, headers=key)
    assert code(refused) == (403, "pipelines_limited")
    assert refused.json()["detail"] == "This key is for double only."


def test_a_key_of_several_pipelines_says_which_it_wants_to_see(house: House) -> None:
    house.enqueue("double", 1)
    key = house.key("read", pipelines=("double", "wait"))

    assert code(house.get("/jobs", headers=key)) == (403, "pipelines_limited")
    assert len(house.get("/jobs?pipeline=double", headers=key).json()["jobs"]) == 1
    assert code(house.get("/jobs?pipeline=anything", headers=key)) == (403, "pipelines_limited")


def test_a_key_of_some_pipelines_has_no_say_over_the_whole_house(house: House) -> None:
    key = house.key("admin", pipelines=("double",))

    for path in ("/queues", "/workers", "/schedules", "/system/health", "/system/metrics?label=a"):
        assert code(house.get(path, headers=key)) == (403, "pipelines_limited"), path
    for path in ("/queues/double/pause", "/schedules/a/run"):
        assert code(house.post(path, headers=key)) == (403, "pipelines_limited"), path


# — hosts and other sites —


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[", "10.0.0.1"])
def test_a_host_that_was_not_allowed_is_refused(still_house: House, host: str) -> None:
    for path in ("/api/v1/jobs", "/openapi.json", "/docs", "/nowhere"):
        refused = still_house.client.get(path, headers={"Host": host})
        assert code(refused) == (421, "host_not_allowed"), path
        assert "RETOMA_WEB_ALLOW_HOSTS" in refused.json()["detail"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1:1", "[::1]:8000", "127.9.9.9", "localhost."])
def test_this_machines_own_names_are_allowed(still_house: House, host: str) -> None:
    assert still_house.get("/jobs", headers={"Host": host}).status_code == 200


def test_more_names_are_allowed_by_setting_or_option_and_those_who_use_them_need_a_key(open_house: Open) -> None:
    house = open_house(web_allow_hosts="jobs.example, second.example", allow_hosts=("Third.example",))

    for host in ("jobs.example", "second.example:8000", "third.example"):
        assert code(house.get("/jobs", headers={"Host": host})) == (401, "auth_missing"), host
    key = house.key("read")
    assert house.get("/jobs", headers={"Host": "jobs.example", **key}).status_code == 200


def test_a_proxy_on_this_machine_that_speaks_for_others_is_not_let_in_without_a_key(still_house: House) -> None:
    for name in ("X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Forwarded", "Via"):
        assert code(still_house.get("/jobs", headers={name: "203.0.113.7"})) == (401, "auth_missing"), name


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "nonsense"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "same"},
    ],
    ids=str,
)
def test_a_page_of_another_site_changes_nothing(still_house: House, headers: dict[str, str]) -> None:
    headers = {
        name: value.replace("same", still_house.url) if name == "Origin" else value for name, value in headers.items()
    }

    assert code(still_house.post("/jobs", ORDER, headers=headers)) == (403, "cross_site_blocked")
    assert still_house.get("/jobs", headers=headers).json()["jobs"] == []


def test_a_page_of_our_own_a_person_and_a_program_may_change_things(house: House) -> None:
    for headers in ({"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {"Origin": house.url}, {}):
        assert house.post("/jobs", ORDER, headers=headers).status_code == 202, headers
    key = house.key("submit")
    assert house.post("/jobs", ORDER, headers={"Sec-Fetch-Site": "cross-site", **key}).status_code == 202


# — headers —


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/api/v1/jobs", "/api/v1/jobs/404", "/nowhere", "/openapi.json"])
def test_every_answer_tells_the_browser_to_keep_its_hands_off(still_house: House, path: str) -> None:
    headers = still_house.client.get(path).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert "server" not in headers
    assert "access-control-allow-origin" not in headers


# — keys that end —


def test_a_key_that_ends_soon_says_so_with_every_answer(house: House) -> None:
    soon, later = house.key("read", expires=timedelta(days=13)), house.key("read")

    warned = house.get("/jobs", headers=soon).headers
    (key,) = [each for each in house.ask(lambda app: app.access.keys()) if each.ends_soon]

    assert warned["retoma-key-expires"] == key.expires_at.isoformat()
    assert "retoma-key-expires" not in house.get("/jobs", headers=later).headers


def test_a_key_of_before_without_a_checksum_still_opens(house: House, psql: psycopg.Connection) -> None:
    secret = "A" * 43
    house.key("read")
    psql.execute("update retoma.api_keys set secret_hash = %s", [hashlib.sha256(secret.encode()).digest()])
    (key,) = house.ask(lambda app: app.access.keys())

    assert house.get("/jobs", headers={"Authorization": f"Bearer rtm_{key.id}_{secret}"}).status_code == 200
