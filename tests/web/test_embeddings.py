"""Embeddings over HTTP, and the figures of those who make them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
import psycopg
import pytest

from retoma import Retoma, Settings
from retoma.pipelines import EMBEDDINGS
from retoma.providers import Embedder, ProviderDown, Vectors
from retoma.providers.local import LocalEmbedder
from retoma.testing import drain

from .conftest import House, code, serving

DOG = "O cachorro dorme no sofá da sala."
WHERE = {"organisation": "acme", "site": "main"}
SEVEN = [
    "jobsClaimed", "jobsCompleted", "jobsFailed", "jobsRetried", "jobsRecovered", "avgJobDurationMs", "stuckJobCount",
]  # fmt: skip


def said(source: str, content: str = DOG, **more: Any) -> dict[str, Any]:
    return {**WHERE, "source_type": "page", "source_id": source, "content": content, **more}


@pytest.fixture(scope="module")
def local() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture
def place(settings: Settings, local: LocalEmbedder) -> Iterator[House]:
    app = Retoma(settings=settings, extensions=[EMBEDDINGS], providers={Embedder: local})
    with serving(app) as url, httpx2.Client(base_url=url, timeout=240) as client:
        yield House(url, client, settings)


def work(place: House, local: LocalEmbedder) -> None:
    asyncio.run(drain(Retoma(settings=place.settings, extensions=[EMBEDDINGS], providers={Embedder: local})))


def test_texts_are_added_once_embedded_and_found(place: House, local: LocalEmbedder) -> None:
    added = place.post("/embeddings", {"texts": [said("1"), said("a/b"), said("3", "A fatura vence amanhã.")]})
    again = place.post("/embeddings", {"texts": [said("1")]})
    waiting = place.get("/embeddings", params=WHERE).json()
    work(place, local)
    there = place.post("/embeddings", {"texts": [said("1"), said("a/b")]})
    found = place.get("/embeddings/search", params={**WHERE, "q": "animal descansando", "limit": 1}).json()["hits"]
    source = place.get("/embeddings/sources/page/a/b", params=WHERE).json()

    assert (added.status_code, again.status_code, there.status_code) == (202, 202, 200)
    assert [(each["job_id"], each["state"], each["new"]) for each in added.json()["texts"]] == [
        (1, "queued", True), (1, "queued", False), (2, "queued", True),
    ]  # fmt: skip
    assert again.json()["texts"][0]["new"] is False
    assert waiting == {"stored": 0, "states": {"queued": 3}}
    assert {(each["state"], each["new"], each["active"]) for each in there.json()["texts"]} == {
        ("completed", False, True)
    }
    assert place.client.get(there.json()["texts"][0]["status_url"]).json()["state"] == "completed"
    assert found[0]["excerpt"] == DOG
    assert [each["source_id"] for each in found[0]["sources"]] == ["1", "a/b"]
    assert source["source_id"] == "a/b"
    assert [(each["version"], each["state"], each["text"]) for each in source["versions"]] == [(1, "active", DOG)]
    assert place.get("/embeddings").json() == {"stored": 2, "states": {"active": 3}}


def test_what_texts_say_needs_the_scope_for_it(place: House, local: LocalEmbedder) -> None:
    place.post("/embeddings", {"texts": [said("1")]})
    work(place, local)
    reader, submitter, stranger = place.key("read"), place.key("submit"), place.key("read", pipelines=("double",))

    (hit,) = place.get("/embeddings/search", params={**WHERE, "q": "cachorro"}, headers=reader).json()["hits"]
    source = place.get("/embeddings/sources/page/1", params=WHERE, headers=reader).json()

    assert "excerpt" not in hit
    assert "text" not in source["versions"][0]
    assert code(place.get("/embeddings", headers=submitter)) == (403, "scope_required")
    assert code(place.post("/embeddings", {"texts": [said("2")]}, headers=reader)) == (403, "scope_required")
    assert code(place.get("/embeddings", headers=stranger)) == (403, "pipelines_limited")
    assert place.post("/embeddings", {"texts": [said("2")]}, headers=submitter).status_code == 200


@pytest.mark.parametrize(
    ("texts", "pointer"),
    [
        ([], "/texts"),
        ([said(str(number)) for number in range(1001)], "/texts"),
        ([said("1"), said("2", " \n ")], "/texts/1/content"),
        ([said("1"), said("2", "a" * 100_001)], "/texts/1/content"),
        ([said("")], "/texts/0/source_id"),
        ([said("1", organisation="o" * 101)], "/texts/0/organisation"),
        ([said("1", colour="red")], "/texts/0/colour"),
        ([{**WHERE, "source_type": "page", "source_id": "1"}], "/texts/0/content"),
    ],
)
def test_a_bad_text_is_refused_with_its_place_and_nothing_is_written(
    place: House, psql: psycopg.Connection, texts: list[Any], pointer: str
) -> None:
    refused = place.post("/embeddings", {"texts": texts})

    assert code(refused) == (422, "validation_failed")
    assert pointer in [fault["pointer"] for fault in refused.json()["errors"]]
    assert psql.execute("select count(*) from retoma.jobs").fetchone() == (0,)
    assert psql.execute("select count(*) from retoma.embedding_sources").fetchone() == (0,)


def test_questions_that_cannot_be_answered_are_refused(place: House) -> None:
    assert code(place.get("/embeddings/search", params={"q": "x"})) == (422, "validation_failed")
    assert code(place.get("/embeddings/search", params={**WHERE, "q": "?!"})) == (422, "validation_failed")
    assert code(place.get("/embeddings/search", params={**WHERE, "q": "x", "limit": 101})) == (422, "validation_failed")
    assert code(place.get("/embeddings/sources/page/1", params=WHERE)) == (404, "not_found")
    assert code(place.get("/embeddings/sources/page/1")) == (422, "validation_failed")


class Silent:
    """An embedder behind a cable that was pulled."""

    provider, model, dimensions = "biller", "clerk", 512

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Vectors:
        raise ProviderDown(f"nobody answers {texts} in {timeout}", provider=self.provider)


def test_a_search_whose_provider_is_silent_says_so_and_may_be_asked_again(settings: Settings) -> None:
    app = Retoma(settings=settings, extensions=[EMBEDDINGS], providers={Embedder: Silent()})
    with serving(app) as url, httpx2.Client(base_url=url, timeout=240) as client:
        refused = client.get("/api/v1/embeddings/search", params={**WHERE, "q": "segredo"})

    assert code(refused) == (503, "provider_unavailable")
    assert (refused.json()["retryable"], "biller" in refused.json()["detail"]) == (True, True)
    assert "segredo" not in refused.text


def test_an_app_without_the_pipeline_has_no_such_routes(still_house: House) -> None:
    assert code(still_house.get("/embeddings")) == (404, "not_found")
    assert not [path for path in still_house.client.get("/openapi.json").json()["paths"] if "embeddings" in path]


def test_the_routes_are_in_the_description_and_in_the_reference(place: House) -> None:
    schema = place.client.get("/openapi.json").json()

    assert schema["paths"]["/api/v1/embeddings"].keys() == {"get", "post"}
    assert {"200", "202"} <= schema["paths"]["/api/v1/embeddings"]["post"]["responses"].keys()
    assert {"/api/v1/embeddings/search", "/api/v1/embeddings/sources/{source_type}/{source_id}"} <= schema[
        "paths"
    ].keys()


# — the figures of a worker —


def test_the_seven_figures_go_by_label_or_by_number_under_the_names_of_the_document(house: House) -> None:
    house.enqueue("double", 1)
    house.enqueue("stumble", "a")
    house.work()
    house.enqueue("double", 2)
    house.work()
    first, second = sorted(each["id"] for each in house.get("/workers?gone=true").json()["workers"])

    label = house.get(f"/workers/{house.settings.worker_label}/metrics").json()
    numbers = [house.get(f"/workers/{number}/metrics").json() for number in (first, second)]

    assert [*label] == SEVEN
    assert [*numbers[0]] == SEVEN
    assert (label["jobsClaimed"], label["jobsCompleted"], label["jobsFailed"], label["stuckJobCount"]) == (3, 2, 1, 0)
    assert [(each["jobsClaimed"], each["jobsCompleted"], each["jobsFailed"]) for each in numbers] == [
        (2, 1, 1), (1, 1, 0),
    ]  # fmt: skip
    assert all(each["avgJobDurationMs"] > 0 for each in (label, *numbers))
    assert code(house.get("/workers/nobody/metrics")) == (404, "not_found")
    assert code(house.get("/workers/999/metrics")) == (404, "not_found")


@pytest.mark.parametrize(
    ("headers", "known"),
    [
        ({"X-Correlation-ID": "request-4711"}, "request-4711"),
        ({"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}, "ab" * 16),
        ({"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01", "X-Correlation-ID": "request-4711"}, "request-4711"),
        ({"traceparent": f"00-{'00' * 16}-{'cd' * 8}-01"}, None),
        ({"traceparent": "nonsense"}, None),
    ],
)
def test_a_request_is_known_by_its_own_id_or_by_that_of_its_trace(
    still_house: House, headers: dict[str, str], known: str | None
) -> None:
    came_back = still_house.get("/jobs", headers=headers).headers["x-correlation-id"]

    assert came_back == known if known else len(came_back) == 32 and came_back != "0" * 32
