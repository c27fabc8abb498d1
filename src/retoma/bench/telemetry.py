"""What it costs to be watched: jobs that do nothing, with and without logs, metrics and traces, by turns.

A worker of each kind lives through the whole run and has a queue of its own. Each turn is a few thousand jobs of one of
them, between two turns of the worker that tells nothing: what is compared is seconds apart, on the same tables.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from retoma.bench import figures
from retoma.bench.machine import WorkerProcess, exact_cpu, server_of, worker
from retoma.bench.program import app

Figures = dict[str, Any]

_LOGS = {"RETOMA_LOG_LEVEL": "info", "RETOMA_LOG_FORMAT": "json"}
_METRICS = {"RETOMA_METRICS_PORT": "0"}
_NOTHING = "nothing"
_AGAIN = "nothing_again"
_SENT_MILLISECONDS = 1000
_SENT_SECONDS = 1.3  # after this, the spans of a turn are sent
_LOOK_SECONDS = 0.02
_LONGEST_SECONDS = 120.0


class Turn(NamedTuple):
    """One turn of one worker."""

    per_second: float
    worker_ms: float
    server_ms: float
    """Processor time for each job. The server's is zero when it runs on another machine."""


async def overhead(rounds: int, *, jobs: int, act: Callable[[Any], Awaitable[None]]) -> Figures:
    """Jobs a second and processor time in every variant, against the turns of nothing around it. *all* is what a worker
    does that was told nothing about how many traces to record; *nothing again* is a second worker that tells nothing,
    so it shows how much of a difference is noise. The share of processor time is the steadier figure on a machine that
    does other things too.
    """
    turns: dict[str, list[tuple[Turn, Turn]]] = {}
    bare: list[Turn] = []
    with ExitStack() as stack:
        desk = await _Desk.opened(jobs, act)
        workers = {
            name: stack.enter_context(worker(app.database.url, queue=_queue(name), environment=told))
            for name, told in _variants(stack.enter_context(_collector())).items()
        }
        await desk.ready(workers)
        names = [name for name in workers if name != _NOTHING]
        for turn in range(rounds):
            before = await desk.turn(_NOTHING, workers[_NOTHING])
            # In another order each time: whatever the machine does beside this does not always hit the same one.
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                told = await desk.turn(name, workers[name])
                after = await desk.turn(_NOTHING, workers[_NOTHING])
                turns.setdefault(name, []).append((told, between(before, after)))
                bare.append(before := after)
    return {
        "rounds": rounds,
        "jobs_of_a_turn": jobs,
        _NOTHING: _summed(bare),
        **{name: {**_summed([told for told, _ in turns[name]]), **compared(turns[name])} for name in names},
    }


def _variants(url: str) -> dict[str, Mapping[str, str]]:
    # Sent more often than usual, so that a turn pays for its own spans.
    everything = {
        **_LOGS,
        **_METRICS,
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_BSP_SCHEDULE_DELAY": str(_SENT_MILLISECONDS),
    }
    share = {**everything, "OTEL_TRACES_SAMPLER": "traceidratio"}
    return {
        _NOTHING: {},
        _AGAIN: {},
        "logs": _LOGS,
        "logs_and_metrics": {**_LOGS, **_METRICS},
        "all": everything,
        "all_with_a_tenth_of_the_traces": {**share, "OTEL_TRACES_SAMPLER_ARG": "0.1"},
        "all_with_every_trace": {**share, "OTEL_TRACES_SAMPLER_ARG": "1"},
    }


class _Desk:
    """Gives out the jobs of a turn, and reads what they took."""

    def __init__(self, jobs: int, act: Callable[[Any], Awaitable[None]], server: int | None) -> None:
        self._jobs = jobs
        self._act = act
        self._server = server

    @classmethod
    async def opened(cls, jobs: int, act: Callable[[Any], Awaitable[None]]) -> _Desk:
        async with app.database.connection() as connection:
            return cls(jobs, act, server_of(connection.info.backend_pid))

    async def ready(self, workers: Mapping[str, WorkerProcess]) -> None:
        """Wait until every worker has started, and let each do a turn that does not count."""
        async with asyncio.timeout(_LONGEST_SECONDS):
            while len(await app.workers.all()) < len(workers):
                await asyncio.sleep(_LOOK_SECONDS)
        for name, running in workers.items():
            await self.turn(name, running)

    async def turn(self, name: str, running: WorkerProcess) -> Turn:
        """The jobs of a turn, done by that worker, while the others have nothing to do."""
        queue = _queue(name)
        await app.queues.pause(queue)
        await self._act(figures.emptied())
        await self._act(figures.preload(self._jobs, queue=queue))
        await self._act(figures.settled())
        last = (await app.fetch(figures.newest()))[0]
        worker_before, server_before = exact_cpu(running.pid), self._server_cpu()
        await app.queues.resume(queue)
        await self._over(last)
        server = self._server_cpu() - server_before
        await asyncio.sleep(_SENT_SECONDS)
        pace = (await app.fetch(figures.pace()))[0]
        return Turn(
            per_second=pace.jobs / (pace.seconds or 1),
            worker_ms=1000 * (exact_cpu(running.pid) - worker_before) / self._jobs,
            server_ms=1000 * server / self._jobs,
        )

    async def _over(self, last: int) -> None:
        """Wait for the end of the jobs. To count them takes a while, so the one that is claimed last comes first."""
        async with asyncio.timeout(_LONGEST_SECONDS):
            while not (await app.fetch(figures.over(last)))[0] or (await app.fetch(figures.left()))[0]:
                await asyncio.sleep(_LOOK_SECONDS)

    def _server_cpu(self) -> float:
        return 0.0 if self._server is None else exact_cpu(self._server)


def _queue(name: str) -> str:
    return f"bench-{name.replace('_', '-')}"


# — what the turns say —


def between(before: Turn, after: Turn) -> Turn:
    """What a turn between these two would have been, so that a machine that slows down slows both sides down."""
    return Turn(*((one + other) / 2 for one, other in zip(before, after, strict=True)))


def _summed(turns: Sequence[Turn]) -> Figures:
    return {
        "per_second": round(statistics.median(each.per_second for each in turns)),
        "worker_cpu_ms_per_job": round(statistics.median(each.worker_ms for each in turns), 4),
        "server_cpu_ms_per_job": round(statistics.median(each.server_ms for each in turns), 4),
    }


def compared(pairs: Sequence[tuple[Turn, Turn]]) -> Figures:
    """What a variant takes more than nothing does: the median of the pairs, and the quarters around it."""
    slower = [100 * (1 - told.per_second / bare.per_second) for told, bare in pairs]
    whole = [100 * (_cpu(told) / _cpu(bare) - 1) for told, bare in pairs]
    own = [100 * (told.worker_ms / bare.worker_ms - 1) for told, bare in pairs]
    found: Figures = {}
    for name, each in (("slower", slower), ("more_cpu", whole), ("more_worker_cpu", own)):
        found[f"{name}_percent"] = round(statistics.median(each), 1)
        if len(each) > 1:
            low, _, high = statistics.quantiles(each, n=4, method="inclusive")
            found[f"{name}_percent_quarters"] = [round(low, 1), round(high, 1)]
    return found


def _cpu(turn: Turn) -> float:
    return turn.worker_ms + turn.server_ms


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
