"""What goes wrong is told as RFC 9457 has it: everywhere, in the caller's language, and with nothing of our insides."""

import ast
import socket
import string
import urllib.parse
from pathlib import Path

import psycopg
import pytest
from starlette.requests import Request

from retoma.errors import AnswerUnfit
from retoma.telemetry import Event, listen
from retoma.web.http import errors
from retoma.web.http.errors import RETRY_AFTER, STATUSES
from retoma.web.words import LANGUAGES, catalogue, language_of

from .conftest import House, Open, code


@pytest.mark.parametrize("path", ["/nothing", "/api", "/api/v1/nothing", "/api/v1/jobs/", "/api/v1/jobs/1/nothing"])
def test_an_unknown_route_is_a_problem(still_house: House, path: str) -> None:
    refused = still_house.client.get(path)

    assert code(refused) == (404, "not_found")
    assert refused.json()["instance"] == path


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/api/v1/jobs/1", "GET, HEAD, OPTIONS"),
        ("DELETE", "/api/v1/jobs", "GET, HEAD, OPTIONS, POST"),
        ("PUT", "/api/v1/batches/1", "GET, HEAD, OPTIONS, PATCH"),
        ("GET", "/api/v1/jobs/1/retry", "OPTIONS, POST"),
        ("POST", "/livez", "GET, HEAD, OPTIONS"),
    ],
)
def test_a_method_that_is_not_there_is_a_problem_that_says_which_is(
    still_house: House, method: str, path: str, allowed: str
) -> None:
    refused = still_house.client.request(method, path)

    assert code(refused) == (405, "method_not_allowed")
    assert refused.headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/api/v1/jobs", "/api/v1/queues", "/openapi.json"])
def test_a_head_is_answered_as_a_get_without_its_body(still_house: House, path: str) -> None:
    head, get = still_house.client.head(path), still_house.client.get(path)

    assert (head.status_code, head.content) == (get.status_code, b"")
    same = ("content-type", "etag", "cache-control", "content-length")
    assert [head.headers.get(name) for name in same] == [get.headers.get(name) for name in same]


def test_a_head_of_a_stream_ends(house: House) -> None:
    made = house.post("/batches", {"pipeline": "double", "name": "open"}).json()

    head = house.client.head(made["events_url"], headers={"Accept": "text/event-stream"})

    assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert house.client.head("/api/v1/batches/404").status_code == 404


def test_options_says_what_can_be_done(still_house: House) -> None:
    told = still_house.client.options("/api/v1/jobs")

    assert (told.status_code, told.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")
    assert still_house.client.options("/nowhere").status_code == 404


def test_words_follow_the_language_and_the_code_does_not(still_house: House) -> None:
    english = still_house.get("/jobs/404")
    portuguese = still_house.get("/jobs/404", headers={"Accept-Language": "de, pt-BR;q=0.9, en;q=0.5"})

    assert code(english) == code(portuguese) == (404, "not_found")
    assert (english.headers["content-language"], portuguese.headers["content-language"]) == ("en", "pt")
    assert (english.json()["title"], portuguese.json()["title"]) == ("There is no such thing", "Não existe")
    assert portuguese.json()["detail"] == "Não existe a tarefa 404."
    assert portuguese.headers["vary"].lower().startswith("accept-language")


def test_what_fills_the_words_fills_them_in_both_languages(still_house: House) -> None:
    for language, words in (("en", "At most 1000000 bytes"), ("pt", "No máximo 1000000 bytes")):
        refused = still_house.client.post(
            "/api/v1/jobs", content=b" " * 1_000_001, headers={"Accept-Language": language}
        )
        assert code(refused) == (413, "payload_too_large")
        assert refused.json()["detail"].startswith(words)


def test_every_code_has_words_in_every_language_with_the_same_braces() -> None:
    def braces(text: str) -> set[str | None]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}

    for language in LANGUAGES:
        assert catalogue(language).keys() == STATUSES.keys(), language
    for code_ in STATUSES:
        words = [catalogue(language)[code_] for language in LANGUAGES]
        assert all(each.title and each.detail for each in words), code_
        assert len({frozenset(braces(each.detail)) for each in words}) == 1, code_
        assert len({each.title for each in words}) == len(LANGUAGES), f"{code_} is not translated"
    assert RETRY_AFTER.keys() <= STATUSES.keys()


@pytest.mark.parametrize(
    ("accepted", "spoken"),
    [
        ("", "en"), ("pt", "pt"), ("PT-br", "pt"), ("en, pt", "en"), ("fr", "en"), ("pt;q=0", "en"), ("*", "en"),
        ("en;q=0.4,pt;q=0.7", "pt"), ("pt;q=x", "en"), (";;,", "en"), ("en-GB;q=0.2, pt ; q=0.3", "pt"),
    ],
)  # fmt: skip
def test_the_language_that_is_liked_best_is_spoken(accepted: str, spoken: str) -> None:
    assert language_of(accepted) == spoken


def test_an_unexpected_error_tells_nothing_but_its_correlation_id(house: House, psql: psycopg.Connection) -> None:
    heard: list[Event] = []
    end = listen(heard.append)
    psql.execute("alter table retoma.api_keys rename to secret_table")

    refused = house.get("/jobs", headers={"X-Correlation-Id": "find-me-in-the-log"})
    end()

    assert code(refused) == (500, "internal")
    assert not any(word in refused.text for word in ("secret_table", "select", "Traceback", "psycopg", ".py"))
    assert not refused.json()["retryable"]
    (told,) = [event for event in heard if event.title() == "request.failed"]
    assert (told.request, told.correlation) == ("GET /api/v1/jobs", "find-me-in-the-log")
    assert told.error.startswith("UndefinedTable in ")
    assert "secret_table" not in told.error, "a message may hold what documents say"


def test_a_database_that_went_away_is_503_and_says_when_to_come_back(
    open_house: Open, psql: psycopg.Connection, server: str
) -> None:
    house = open_house(connect_timeout=1)
    house.enqueue("double", 1)
    name = psql.info.dbname
    with psycopg.connect(server, autocommit=True) as outside:
        outside.execute(f"alter database {name} with allow_connections false")
        outside.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()",
            [name],
        )
        refused = house.get("/jobs/1")
        changed = house.post("/jobs/1/cancel")
        outside.execute(f"alter database {name} with allow_connections true")
    back = house.get("/jobs/1")

    for each in (refused, changed):
        assert code(each) == (503, "database_unavailable")
        assert each.json()["retryable"]
        assert int(each.headers["retry-after"]) > 0
        assert name not in each.text
        assert urllib.parse.urlsplit(house.settings.database_url).password not in each.text
    assert (back.status_code, back.json()["state"]) == (200, "queued")


def test_a_request_that_breaks_off_harms_nobody(still_house: House) -> None:
    where = urllib.parse.urlsplit(still_house.url)
    with socket.create_connection((where.hostname, where.port)) as connection:
        head = "POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 99"
        connection.sendall(f"{head}\r\n\r\n{{".encode())

    assert still_house.get("/jobs").json()["jobs"] == []


def test_an_answer_that_does_not_fit_is_the_models_fault_and_is_not_repeated() -> None:
    request = Request({"type": "http", "method": "POST", "path": "/x", "headers": [], "query_string": b"", "state": {}})
    error = AnswerUnfit("The answer to step 'classify' does not fit: SECRET.", raw="SECRET")

    problem, _ = errors.explained(request, error, "pt")

    assert (problem.status, problem.code) == (502, "answer_unfit")
    assert "SECRET" not in problem.model_dump_json()


def test_whatever_is_too_much_names_its_limit(still_house: House) -> None:
    """Of each refusal in the sources: without it a caller would have to find the limit out."""
    much = {code for code, status in STATUSES.items() if status in (413, 429)}
    silent, said = [], set()
    for file in Path(errors.__file__).parents[2].rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="Refusal"), args=[ast.Constant(value=code), *_], keywords=words):
                    if code in much:
                        said.add(code)
                        if "limit" not in {each.arg for each in words}:
                            silent.append(f"{file.name}:{node.lineno}")
    large = still_house.client.post("/api/v1/jobs", content=b"[" * 1_100_000)

    assert silent == []
    assert said | {"too_many_connections"} >= {code for code in much if code != "quota_exceeded"}
    assert {code for code in much if STATUSES[code] == 429} <= set(RETRY_AFTER)
    assert (large.status_code, large.headers["ratelimit-policy"][:20]) == (413, '"payload_too_large";')
