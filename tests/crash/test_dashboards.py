"""Every query of the dashboards returns data from a real Prometheus that scraped a server and a worker at work."""

from __future__ import annotations

import asyncio
import json
import math
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paid_app
import pytest
from fleet import Fleet, until
from oracle import Oracle
from paid_app import INPUT, MODEL, OUTPUT, PROVIDER, Document

from retoma import Retoma
from retoma.postgres.embedded.initdb import free_port
from retoma.testing.billing import Biller

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed"),
]

BOARDS = Path(__file__).parents[2] / "contrib/grafana"
SCRAPES = """
global: {{scrape_interval: 4s, scrape_timeout: 4s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: retoma
    static_configs: [{{targets: ["127.0.0.1:{server}", "127.0.0.1:{worker}"]}}]
"""


def queries() -> dict[str, str]:
    boards = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(BOARDS.glob("*.json"))]
    return {
        f"{board['title']}: {panel['title']} {target['refId']}": target["expr"]
        for board in boards
        for panel in board["panels"]
        for target in panel["targets"]
    }


@contextmanager
def prometheus(folder: Path, server: int, worker: int) -> Iterator[int]:
    """A Prometheus that scrapes both, and its port."""
    port = free_port()
    rules = BOARDS.parent / "prometheus/rules.yml"
    config = folder / "prometheus.yml"
    config.write_text(SCRAPES.format(rules=rules, server=server, worker=worker))
    log = (folder / "prometheus.log").open("w")
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'series'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=log,
        stderr=log,
    )
    try:
        yield port
    finally:
        process.kill()
        process.wait()
        log.close()


def values(port: int, query: str) -> list[float]:
    """What an instant query returns; without numbers that are none."""
    asked = urllib.parse.urlencode({"query": query})
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{asked}", timeout=10) as answer:
            found = json.load(answer)["data"]["result"]
    except OSError:
        return []
    return [value for each in found if not math.isnan(value := float(each["value"][1]))]


def enqueue(port: int, number: int) -> None:
    """A job by the API: the server counts what it queues, and this process is not scraped."""
    job = {"pipeline": "inquire", "input": {"number": 5000 + number}}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v1/jobs",
        data=json.dumps(job).encode(),
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=30).close()


async def test_every_query_of_the_dashboards_returns_data_from_a_run(
    fleet: Fleet, oracle: Oracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = queries()
    with Biller(tmp_path / "bill.jsonl") as biller:
        monkeypatch.setenv("PAID_URL", biller.base_url)
        worker_port = free_port()
        server = fleet.run(
            "serve", {"RETOMA_METRICS_OPEN": "loopback"}, "serve", "--app", "paid_app:app", "--port", "0"
        )
        fleet.run("ana", {}, "worker", "--app", "paid_app:app", "--metrics-port", str(worker_port))
        found = await until(
            lambda: re.search(r"http://127\.0\.0\.1:(\d+)/api", server.words()), what="the server listens"
        )
        with prometheus(tmp_path, int(found[1]), worker_port) as port:
            async with Retoma(fleet.url, pipelines=paid_app.PIPELINES, providers=paid_app.PROVIDERS) as app:
                await app.calls.set_price(PROVIDER, MODEL, input=INPUT, output=OUTPUT)
                end = time.monotonic() + 240
                number, missing = 0, dict(wanted)
                while missing and time.monotonic() < end:
                    # Rates need figures that change while they are watched, so work goes on.
                    papers = [Document(number=number + each, letters=80 + number) for each in range(3)]
                    number += len(papers)
                    await app.batch(paid_app.inquire, papers, name=f"wave {number}", key=lambda paper: paper.key)
                    await asyncio.to_thread(enqueue, int(found[1]), number)
                    await asyncio.sleep(1)
                    missing = {name: query for name, query in missing.items() if not values(port, query)}

    assert sorted(missing) == []
    assert oracle.states()["completed"] > 0
    assert len(wanted) > 30
