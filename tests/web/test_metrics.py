"""/metrics: who may read it, and what it says."""

from __future__ import annotations

import shutil
import subprocess

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from retoma.telemetry.catalogue import METRICS
from retoma.web.api import scrape

from .conftest import House, Open, code


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels, in the order of the catalogue."""
    order = {metric.name: metric.labels for metric in METRICS}
    return {
        (sample.name, *(sample.labels[label] for label in order.get(sample.name, ()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_scrape_tells_what_the_tables_say_and_what_this_server_did(
    open_house: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = open_house(token="off", metrics_open="loopback")
    assert house.post("/jobs", {"pipeline": "double", "input": 21}).status_code == 202
    house.enqueue("double", 4)

    told = house.client.get("/metrics")

    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(told.text)
    assert found["retoma_queue_depth", "double", "ready"] == 2
    assert found["retoma_jobs_enqueued_total", "double", "double"] == 2, "all in this process"
    assert any(key[0] == "retoma_build_info" for key in found)
    assert found["retoma_db_pool_connections", "free"] >= 0

    house.enqueue("double", 5)
    kept = samples(house.client.get("/metrics").text)
    assert kept["retoma_queue_depth", "double", "ready"] == 2, "a look counts for ten seconds"
    monkeypatch.setattr(scrape, "KEPT", 0.0)
    assert samples(house.client.get("/metrics").text)["retoma_queue_depth", "double", "ready"] == 3
    _is_clean(told.content)


def test_only_a_key_that_reads_everything_opens_it(house: House) -> None:
    reads, limited, other = house.key("read"), house.key("read", pipelines=("double",)), house.key("submit")

    assert code(house.client.get("/metrics")) == (401, "auth_missing")
    assert house.client.get("/metrics", headers=reads).status_code == 200
    assert code(house.client.get("/metrics", headers=other)) == (403, "scope_required")
    assert code(house.client.get("/metrics", headers=limited)) == (403, "pipelines_limited")


def test_this_machine_is_let_in_by_the_setting_and_a_proxy_on_it_is_not(open_house: Open) -> None:
    house = open_house(metrics_open="loopback")

    assert house.client.get("/metrics").status_code == 200
    assert house.client.get("/metrics", headers={"X-Forwarded-For": "203.0.113.7"}).status_code == 401


def _is_clean(text: bytes) -> None:
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    told = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
    assert (told.returncode, told.stdout + told.stderr) == (0, b"")


def test_the_trace_of_a_request_is_kept_with_its_jobs(open_house: Open, psql: psycopg.Connection) -> None:
    house = open_house(token="off")
    trace = f"00-{'ab' * 16}-{'cd' * 8}-01"

    made = house.post("/jobs", {"pipeline": "double", "input": 21}, headers={"traceparent": trace})
    other = house.post("/jobs", {"pipeline": "double", "input": 21}, headers={"traceparent": "nonsense"})

    assert (made.status_code, other.status_code) == (202, 202)
    assert psql.execute("select traceparent from retoma.jobs order by id").fetchall() == [(trace,), (None,)]
