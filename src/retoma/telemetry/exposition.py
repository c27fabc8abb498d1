"""Writes figures in the text format of Prometheus."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from wsgiref.simple_server import WSGIServer

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from retoma.errors import ConfigurationError
from retoma.telemetry.catalogue import METRICS
from retoma.telemetry.catalogue import Metric as Described
from retoma.telemetry.sheet import Figure

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


class Figures:
    """A collector: whatever *read* returns at the moment of a scrape."""

    def __init__(self, read: Callable[[], Iterable[Figure]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        by_name: dict[str, list[Figure]] = {}
        for each in self._read():
            by_name.setdefault(each.name, []).append(each)
        for metric in METRICS:
            if found := by_name.get(metric.name):
                yield _family(metric, found)


def build(schema: str) -> Figure:
    """What is installed."""
    return Figure("retoma_build_info", (version("retoma"), platform.python_version(), schema), (1.0,))


def text_of(figures: Iterable[Figure]) -> bytes:
    """*figures* as a scrape reads them."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures(lambda: figures))
    return generate_latest(registry)


def serve(host: str, port: int, read: Callable[[], Iterable[Figure]]) -> tuple[WSGIServer, threading.Thread]:
    """Answer scrapes at that address, in a thread of its own; the server's *shutdown* ends it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures(read))
    try:
        return start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise ConfigurationError(
            f"Cannot serve metrics on {host}, port {port}: {(error.strerror or type(error).__name__).lower()}.",
            next="--metrics-port with another number; each worker of a machine needs its own.",
        ) from None


def _family(metric: Described, figures: Sequence[Figure]) -> Metric:
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for each in figures:
            histogram.add_metric(list(each.labels), _buckets(metric, each.cells), sum_value=each.cells[-1])
        return histogram
    family: CounterMetricFamily | GaugeMetricFamily
    if metric.kind == "counter":
        family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    else:
        family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for each in figures:
        family.add_metric(list(each.labels), each.cells[0])
    return family


def _buckets(metric: Described, cells: Sequence[float]) -> list[tuple[str, float]]:
    """The buckets as Prometheus wants them: each with all that is below it."""
    total, found = 0.0, []
    for edge, cell in zip((*(f"{edge:.12g}" for edge in metric.buckets), "+Inf"), cells[:-1], strict=True):
        total += cell
        found.append((edge, total))
    return found
