"""The metrics of a worker over HTTP: executors are killed, and no counter goes back."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess

import crash_app
import httpx2
import pytest
from fleet import Fleet, Member, until
from oracle import Oracle
from prometheus_client.parser import text_string_to_metric_families

from retoma import Retoma
from retoma.telemetry.catalogue import METRICS

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

Samples = dict[tuple[str, ...], float]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def scrape(port: int) -> tuple[str, Samples]:
    text = httpx2.get(f"http://127.0.0.1:{port}/metrics", timeout=240).text
    order = {metric.name: metric.labels for metric in METRICS}
    return text, {
        (sample.name, *(sample.labels[name] for name in order.get(sample.name, sorted(sample.labels)))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def counters(samples: Samples) -> Samples:
    return {key: value for key, value in samples.items() if key[0].endswith(("_total", "_count", "_sum", "_bucket"))}


async def _started(fleet: Fleet, port: int) -> Member:
    member = fleet.start("ana", processes=2, at_once=4, metrics_port=port)
    await member.ready(2)
    return member


async def test_a_killed_executor_takes_no_counter_with_it(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    port = free_port()
    member = await _started(fleet, port)
    await app.enqueue_many(crash_app.tally, range(60))
    await until(oracle.all_ended, what="the first jobs end")
    await until(lambda: _completed(port) == 60, what="they are counted")
    _, before = scrape(port)

    for pid in member.executors():
        os.kill(pid, signal.SIGKILL)
    await app.enqueue_many(crash_app.tally, range(40))
    await until(oracle.all_ended, what="the others end")
    await until(lambda: _completed(port) == 100, what="they are counted, too")

    text, after = scrape(port)
    gone_back = {key: (value, after.get(key)) for key, value in counters(before).items() if after.get(key, -1) < value}
    assert gone_back == {}
    assert after["retoma_jobs_claimed_total", "work"] >= 100
    assert after["retoma_events_total", "executor.crashed"] == 2
    assert after["retoma_worker_slots", "busy"] + after["retoma_worker_slots", "free"] == 8
    assert after["retoma_worker_last_heartbeat_timestamp_seconds",] > 0
    assert ("retoma_queue_depth", "work", "ready") not in after, "the server alone tells what the tables say"
    _is_clean(text)


def _completed(port: int) -> float:
    return scrape(port)[1].get(("retoma_jobs_finished_total", "work", "tally", "completed"), 0.0)


def _is_clean(text: str) -> None:
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    told = subprocess.run([promtool, "check", "metrics"], input=text.encode(), capture_output=True, check=False)
    assert (told.returncode, told.stdout + told.stderr) == (0, b"")
