"""What holds for every route: correlation, tags, compression, limits, and text that can be kept."""

import gzip
import json
import re
from collections.abc import Iterator

import httpx2
import pytest
from starlette.responses import StreamingResponse

import retoma.web
from retoma import Retoma

from .conftest import House, Open, code, hosting

# — correlation —


def test_a_correlation_id_is_accepted_and_comes_back(still_house: House) -> None:
    for path in ("/livez", "/api/v1/jobs", "/api/v1/jobs/404", "/nowhere"):
        answered = still_house.client.get(path, headers={"X-Correlation-Id": "Abc-123.def:7/+=@"})
        assert answered.headers["x-correlation-id"] == "Abc-123.def:7/+=@", path


@pytest.mark.parametrize("given", ["short", "x" * 129, "with space", 'quote"d-id', "new\\nline-id", "acentuação-longa"])
def test_a_correlation_id_that_is_not_safe_is_replaced(still_house: House, given: str) -> None:
    answered = still_house.get("/jobs", headers={"X-Correlation-Id": given.encode("latin-1")})

    assert re.fullmatch(r"[0-9a-f]{32}", answered.headers["x-correlation-id"])


def test_every_request_without_an_id_gets_one_of_its_own(still_house: House) -> None:
    assert len({still_house.get("/jobs").headers["x-correlation-id"] for _ in range(5)}) == 5


# — tags —


@pytest.mark.parametrize("path", ["/jobs/1", "/jobs/1/attempts", "/jobs", "/queues", "/workers", "/schedules"])
def test_who_has_seen_an_answer_is_told_304_until_it_changes(house: House, path: str) -> None:
    house.enqueue("double", 1, delay=3600)
    first = house.get(path)
    tag = first.headers["etag"]

    for seen in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        again = house.get(path, headers={"If-None-Match": seen})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag), seen
    assert house.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_job_that_moved_has_another_tag(house: House) -> None:
    house.enqueue("double", 1)
    tag = house.get("/jobs/1").headers["etag"]
    house.post("/jobs/1/cancel")

    moved = house.get("/jobs/1", headers={"If-None-Match": tag})

    assert (moved.status_code, moved.json()["state"]) == (200, "cancelled")
    assert moved.headers["etag"] != tag


# — compression —


def test_a_long_answer_is_compressed_when_the_caller_likes_that(house: House) -> None:
    for number in range(5):
        house.enqueue("double", number, delay=3600)

    with house.client.stream("GET", "/api/v1/jobs", headers={"Accept-Encoding": "gzip"}) as answered:
        raw = b"".join(answered.iter_raw())
    plain = house.get("/jobs", headers={"Accept-Encoding": "identity"})

    assert answered.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(raw)) == plain.json()
    assert "content-encoding" not in plain.headers
    assert answered.headers["etag"] == plain.headers["etag"]


def test_a_stream_is_not_compressed(database_url: str) -> None:
    def events() -> Iterator[str]:
        yield "data: " + "x" * 5000 + "\n\n"

    site = retoma.web.site(Retoma(database_url))
    site.get("/stream")(lambda: StreamingResponse(events(), media_type="text/event-stream"))

    with hosting(site) as url:
        answered = httpx2.get(f"{url}/stream", headers={"Accept-Encoding": "gzip"})

    assert answered.status_code == 200
    assert "content-encoding" not in answered.headers


# — limits and text —


def test_a_body_over_the_limit_is_413_declared_or_counted(open_house: Open) -> None:
    house = open_house(web_body_bytes=2000)
    large = json.dumps({"pipeline": "anything", "input": "x" * 2000}).encode()

    def slowly() -> Iterator[bytes]:
        for start in range(0, len(large), 100):
            yield large[start : start + 100]

    declared = house.client.post("/api/v1/jobs", content=large, headers={"Content-Type": "application/json"})
    counted = house.client.post("/api/v1/jobs", content=slowly(), headers={"Content-Type": "application/json"})
    fits = house.post("/jobs", {"pipeline": "anything", "input": "x" * 1900})

    for refused in (declared, counted):
        assert code(refused) == (413, "payload_too_large")
        assert refused.json()["detail"] == "At most 2000 bytes are read."
    assert "transfer-encoding" in counted.request.headers
    assert fits.status_code == 202


def nested(levels: int) -> str:
    return '{"pipeline": "anything", "input": ' + "[" * levels + "]" * levels + "}"


def sent(house: House, text: str | bytes, kind: str = "application/json") -> httpx2.Response:
    content = text.encode() if isinstance(text, str) else text
    return house.client.post("/api/v1/jobs", content=content, headers={"Content-Type": kind} if kind else {})


def test_json_that_is_too_deep_is_refused(house: House) -> None:
    assert sent(house, nested(98)).status_code == 202
    for levels in (101, 990, 100_000):
        assert code(sent(house, nested(levels))) == (422, "json_too_deep"), levels


def input_of(text: str) -> str:
    return '{"pipeline": "anything", "input": ' + text + "}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (r'"a\u0000b"', "U+0000 at /input."),
        (r'["a", {"b": "\ud800"}]', "U+D800 at /input/1/b."),
        (r'"\udc00\ud800"', "U+DC00 at /input."),
        (r'{"a\u0000": 1}', "U+0000 at /input."),
        (r'{"a~/": {"\udfff": 1}}', "U+DFFF at /input/a~0~1."),
        ("NaN", "NaN at a number."),
        ("[-Infinity]", "-Infinity at a number."),
        ("1e999", "1e999 at a number."),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(still_house: House, text: str, told: str) -> None:
    refused = sent(still_house, input_of(text))

    assert code(refused) == (422, "invalid_text")
    assert refused.json()["detail"] == told


@pytest.mark.parametrize("text", [r'"\ud83d\ude00"', r'"\\u0000"', '"😀"', "1e308", "12345678901234567890123", "-0.0"])
def test_what_only_looks_odd_is_kept(house: House, text: str) -> None:
    id = sent(house, input_of(text)).json()["id"]

    assert house.get(f"/jobs/{id}").json()["input"] == json.loads(text)


@pytest.mark.parametrize("text", ["{", "nonsense", b"\xff\xfe{\x00}", '{"a": 1}x', "[1" + "0" * 5000 + "]", "\ufeff{}"])
def test_what_is_not_json_is_refused(still_house: House, text: str | bytes) -> None:
    refused = sent(still_house, text)

    assert code(refused) == (422, "validation_failed")
    assert [fault["code"] for fault in refused.json()["errors"]] == ["json_invalid"]


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_only_json_is_read(still_house: House, kind: str) -> None:
    assert code(sent(still_house, input_of("1"), kind)) == (415, "unsupported_media_type")


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/vnd.x+json"])
def test_json_may_be_called_by_its_other_names(house: House, kind: str) -> None:
    assert sent(house, input_of("1"), kind).status_code == 202


@pytest.mark.parametrize("path", ["/jobs?key=a%00b", "/jobs/%00", "/jobs?cursor=%00"])
def test_a_nul_in_the_url_is_refused(still_house: House, path: str) -> None:
    assert code(still_house.get(path)) == (422, "invalid_text")
