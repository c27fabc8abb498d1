"""Traces by OpenTelemetry. Without its SDK nothing is traced, and nothing is paid for that beyond one look.

The ids of an attempt's span follow from the job and its fence: the next attempt can link to the one before although
that one was killed before it could write anything down, and whoever recovers the job can close its span.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags, Tracer

from retoma.errors import ConfigurationError

if TYPE_CHECKING:
    from retoma.telemetry.sampling import Pace

SYSTEM = "retoma"
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_EXPORTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_FLUSH_MILLISECONDS = 5000
_ROOT = Context()


NOBODY = SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.DEFAULT))
"""The parent of what happens in an attempt that is not sampled. Nothing links to it."""


def live() -> bool:
    """Whether an SDK records spans in this process."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def traceparent_of(context: SpanContext) -> str | None:
    """*context* in the words of the W3C; None when it names no span."""
    if not context.is_valid or context.trace_id == NOBODY.trace_id:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 0xFF:02x}"


def context_in(traceparent: str | None) -> SpanContext | None:
    """The span that *traceparent* names; None when it names none."""
    found = _TRACEPARENT.fullmatch(traceparent or "")
    if found is None:
        return None
    named = SpanContext(int(found[1], 16), int(found[2], 16), is_remote=True, trace_flags=TraceFlags(int(found[3], 16)))
    return named if named.is_valid else None


def parent_in(traceparent: str | None) -> Context | None:
    """A context in which the span that *traceparent* names is the parent of what follows."""
    named = context_in(traceparent)
    return None if named is None else trace.set_span_in_context(NonRecordingSpan(named))


class Sending:
    """The span of an enqueue, one for however many jobs. *traceparent* is what the jobs carry: this span, or without an
    SDK the span that the caller is in.
    """

    __slots__ = ("_span", "traceparent")

    def __init__(
        self,
        queue: str,
        *,
        pipeline: str | None = None,
        many: bool = False,
        after: str | None = None,
        verb: str = "send",
    ) -> None:
        """*after* is a span to link to: a resume comes after the run that stalled."""
        if not live():
            self._span = None
            self.traceparent = traceparent_of(trace.get_current_span().get_span_context())
            return
        before = context_in(after)
        told = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": verb,
            "messaging.destination.name": queue,
            "retoma.pipeline": pipeline,
        }
        self._span = _tracer(trace.get_tracer_provider()).start_span(
            f"{verb} {queue}",
            kind=SpanKind.CLIENT if many else SpanKind.PRODUCER,
            attributes={name: value for name, value in told.items() if value is not None},
            links=[Link(before, {"retoma.link": "stalled"})] if before else (),
        )
        self.traceparent = traceparent_of(self._span.get_span_context())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self._span is not None:
            if error is not None and not isinstance(error, GeneratorExit):
                self._span.set_status(trace.StatusCode.ERROR, type(error).__name__)
            self._span.end()

    def says(self, jobs: int | None = None, **ids: int) -> None:
        """Say how many jobs there were, and which thing it is about: *ids* as in ``job=7``."""
        if self._span is not None:
            if jobs is not None:
                self._span.set_attribute("messaging.batch.message_count", jobs)
            for name, id in ids.items():
                self._span.set_attribute(f"retoma.{name}.id", id)


# — ids —

GIVEN = threading.local()
"""In *ids*, the ids of the span that is being started, when it is decided already that it is recorded."""


class _Ids:
    """An id generator that gives out the ids it was told, and those of the SDK otherwise."""

    def __init__(self, usual: Any) -> None:
        self._usual = usual
        self.told = GIVEN

    def generate_trace_id(self) -> int:
        ids = getattr(self.told, "ids", None)
        return int(ids[0] if ids else self._usual.generate_trace_id())

    def generate_span_id(self) -> int:
        ids = getattr(self.told, "ids", None)
        return int(ids[1] if ids else self._usual.generate_span_id())

    def is_trace_id_random(self) -> bool:
        usual: Callable[[], bool] = getattr(self._usual, "is_trace_id_random", lambda: False)
        return getattr(self.told, "ids", None) is None and usual()


@lru_cache(maxsize=1)
def _tracer(provider: trace.TracerProvider) -> Tracer:
    """The tracer of the engine. The provider is set once in the life of a process."""
    return provider.get_tracer("retoma", version("retoma"))


def attempt_context(job: int, fence: int, traceparent: str | None, home: str = "") -> SpanContext:
    """The span of one attempt. Jobs of two installations have the same numbers, so what the job was sent with is part
    of its ids, or, when it was sent without a trace, the *home* of its database.
    """
    digest = _digest(job, fence, traceparent, home)
    trace_id, span_id = int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:]) or 1
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _digest(job: int, fence: int, traceparent: str | None, home: str) -> bytes:
    told = f"{traceparent or home}:{job}:{fence}".encode()
    return hashlib.blake2b(told, digest_size=24, person=b"retoma.attempt").digest()


class Spans:
    """Starts spans of which the ids are given."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self.tracer = trace.get_tracer("retoma", version("retoma"), provider)
        usual = getattr(self.tracer, "id_generator", None)
        self._ids = None if usual is None else _Ids(usual)
        if self._ids is not None:
            self.tracer.id_generator = self._ids  # type: ignore[attr-defined]
        self._sampler = getattr(self.tracer, "sampler", None)
        self._pace: Pace | None = getattr(self._sampler, "pace", None)
        self._share = _share_of(self._sampler)

    def samples(self, job: int, fence: int, traceparent: str | None, home: str) -> bool:
        """Whether an attempt is recorded: asked first, because most attempts of a busy queue are not, and should cost
        nothing else.
        """
        if self._pace is not None:
            return self._pace.takes()
        if self._sampler is None:
            return True
        digest = _digest(job, fence, traceparent, home)
        if self._share is not None:
            return int.from_bytes(digest[8:16]) < self._share
        trace_id = int.from_bytes(digest[:16])
        found = self._sampler.should_sample(_ROOT, trace_id, "process", SpanKind.CONSUMER)
        return bool(found.decision.is_sampled())

    def rests(self) -> float:
        """Seconds for which no attempt will be recorded; 0 when one may be now, or nobody knows."""
        return 0.0 if self._pace is None else self._pace.rests()

    def start(self, name: str, ids: SpanContext | None = None, **options: Any) -> Span:
        """A span; with *ids* it is the root of a trace and has them."""
        if ids is None or self._ids is None:
            return self.tracer.start_span(name, **options)
        self._ids.told.ids = (ids.trace_id, ids.span_id)
        try:
            return self.tracer.start_span(name, context=Context(), **options)
        finally:
            self._ids.told.ids = None


def _share_of(sampler: Any) -> int | None:
    """Below which value of its last 64 bits a trace id is sampled, when nothing else decides it; None otherwise. To ask
    the sampler takes longer than all else about an attempt that is not sampled.
    """
    root = getattr(sampler, "_root", sampler)  # an attempt has no parent, so that of ParentBased decides
    return root.bound if type(root).__name__ == "TraceIdRatioBased" else None


# — setting up —


def wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment asks for traces, in the words of OpenTelemetry."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return environment.get("OTEL_TRACES_EXPORTER") == "otlp" or any(environment.get(name) for name in _EXPORTS)


def available() -> bool:
    """Whether the SDK is installed, and a way to send spans."""
    return find_spec("opentelemetry.sdk") is not None and find_spec("opentelemetry.exporter") is not None


def configure(*, label: str | None = None) -> Callable[[], None]:
    """Send spans as OTEL_* says, unless the program has set up an SDK itself. The returned function sends what is left
    at the end.
    """
    if not live() and wanted():
        if not available():
            raise ConfigurationError(
                "OTEL_* asks for traces, and the SDK of OpenTelemetry is not installed.",
                next="pip install 'retoma[otel]', or OTEL_SDK_DISABLED=true.",
            )
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        from retoma.telemetry.sampling import Paced  # noqa: PLC0415 - it needs the SDK

        named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": SYSTEM}
        labelled = {"service.instance.id": f"{label}:{os.getpid()}"} if label else {}
        resource = Resource.create({**named, "service.version": version("retoma"), **labelled})
        # None: the SDK reads OTEL_TRACES_SAMPLER.
        sampler = None if os.environ.get("OTEL_TRACES_SAMPLER") else Paced()
        provider = TracerProvider(resource=resource, sampler=sampler)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
    return _flush


def _flush() -> None:
    provider = trace.get_tracer_provider()
    flush = getattr(provider, "force_flush", None)
    if flush is not None:
        flush(_FLUSH_MILLISECONDS)


def home_of(url: str) -> str:
    """What distinguishes one database from another, without its password."""
    found = re.search(r"(?:@|//)([^@/]*/[^?]*)", url)
    return found[1] if found else ""


def links_of(claim_traceparent: str | None, job: int, fence: int, home: str, *, run: str | None = None) -> list[Link]:
    """The spans before an attempt: where the job was sent, the *run* of its batch when that is another, and the attempt
    before it. The run of a batch that was resumed is the resume, which links to the run that stalled.
    """
    links = []
    if (sent := context_in(claim_traceparent)) is not None:
        links.append(Link(sent, {"retoma.link": "enqueued"}))
    if run != claim_traceparent and (ran := context_in(run)) is not None:
        links.append(Link(ran, {"retoma.link": "run"}))
    if fence > 1:
        before = attempt_context(job, fence - 1, claim_traceparent, home)
        links.append(Link(before, {"retoma.link": "attempt before"}))
    return links
