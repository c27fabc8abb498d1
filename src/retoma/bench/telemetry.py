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
_NOTHING = "nothing"


async def overhead(rounds: int, measured: Measured, clear: Callable[[], Awaitable[None]]) -> Figures:
    """Jobs a second and processor time, in every variant, one after the other in each round. *all* is what a worker
    does that was told nothing about how many traces to record. The share of processor time is the steadier figure on
    a machine that does other things too.
    """
    found: dict[str, list[Figures]] = {}
    with _collector() as url:
        everything = {**_LOGS, **_METRICS, "OTEL_EXPORTER_OTLP_ENDPOINT": url}
        share = {**everything, "OTEL_TRACES_SAMPLER": "traceidratio"}
        variants = {
            _NOTHING: {},
            "logs": _LOGS,
            "logs_and_metrics": {**_LOGS, **_METRICS},
            "all": everything,
            "all_with_a_tenth_of_the_traces": {**share, "OTEL_TRACES_SAMPLER_ARG": "0.1"},
            "all_with_every_trace": {**share, "OTEL_TRACES_SAMPLER_ARG": "1"},
        }
        names = list(variants)
        for turn in range(rounds):
            # In another order each time: whatever the machine does beside this does not always hit the same one.
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                await clear()
                found.setdefault(name, []).append(await measured(variants[name]))
    return {"rounds": rounds, **{name: _compared(told, found[_NOTHING]) for name, told in found.items()}}


def _compared(told: list[Figures], nothing: list[Figures]) -> Figures:
    """The median of the rounds; what is compared is compared within a round."""

    def each(of: str) -> list[float]:
        return [100 * (one[of] / other[of] - 1) for one, other in zip(told, nothing, strict=True)]

    slower, more = [-share for share in each("per_second")], each("worker_cpu_ms_per_job")
    return {
        "per_second": round(statistics.median(one["per_second"] for one in told)),
        "slower_percent": round(statistics.median(slower), 1),
        "slower_percent_from_to": [round(min(slower), 1), round(max(slower), 1)],
        "worker_cpu_ms_per_job": round(statistics.median(one["worker_cpu_ms_per_job"] for one in told), 4),
        "more_cpu_percent": round(statistics.median(more), 1),
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
