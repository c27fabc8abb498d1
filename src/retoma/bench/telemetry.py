"""What it costs to be watched: jobs that do nothing, with and without logs, metrics and traces, by turns."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Figures = dict[str, Any]
Measured = Callable[[dict[str, str]], Awaitable[Figures]]

_LOGS = {"RETOMA_LOG_LEVEL": "info", "RETOMA_LOG_FORMAT": "json"}
_METRICS = {"RETOMA_METRICS_PORT": "0"}


async def overhead(rounds: int, measured: Measured, clear: Callable[[], Awaitable[None]]) -> Figures:
    """Jobs a second and processor time, in every variant, one after the other in each round. The share of processor
    time is the steadier figure on a machine that does other things too.
    """
    found: dict[str, list[Figures]] = {}
    with _collector() as url:
        traces = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_TRACES_SAMPLER": "traceidratio"}
        variants = {
            "nothing": {},
            "logs": _LOGS,
            "logs_and_metrics": {**_LOGS, **_METRICS},
            "all_with_a_tenth_of_the_traces": {**_LOGS, **_METRICS, **traces, "OTEL_TRACES_SAMPLER_ARG": "0.1"},
            "all_with_every_trace": {**_LOGS, **_METRICS, **traces, "OTEL_TRACES_SAMPLER_ARG": "1"},
        }
        for _ in range(rounds):
            for name, environment in variants.items():
                await clear()
                found.setdefault(name, []).append(await measured(environment))
    return {"rounds": rounds, **_compared(found)}


def _compared(found: dict[str, list[Figures]]) -> Figures:
    pace = {name: statistics.median(each["per_second"] for each in told) for name, told in found.items()}
    used = {name: statistics.median(each["worker_cpu_ms_per_job"] for each in told) for name, told in found.items()}
    return {
        name: {
            "per_second": round(pace[name]),
            "slower_percent": round(100 * (1 - pace[name] / pace["nothing"]), 1),
            "worker_cpu_ms_per_job": round(used[name], 4),
            "more_cpu_percent": round(100 * (used[name] / used["nothing"] - 1), 1),
        }
        for name in found
    }


@contextmanager
def _collector() -> Iterator[str]:
    """The address of something that takes spans and forgets them."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
