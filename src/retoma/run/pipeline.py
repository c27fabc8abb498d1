"""A pipeline: a plain typed function, and the name that its jobs carry."""

from __future__ import annotations

import asyncio
import inspect
import types
import typing
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from retoma.errors import ConfigurationError
from retoma.model import validation
from retoma.model.last_step import BatchEnd
from retoma.model.retry import Retry
from retoma.run.run import Run
from retoma.run.sync_run import SyncRun
from retoma.values.codec import Codec, codec_of

I = TypeVar("I")
O = TypeVar("O")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline(Generic[I, O]):
    """A handler, and how its jobs are queued, retried, timed and kept. An app binds it by listing it."""

    name: str
    handler: Callable[..., Any]
    queue: str
    retry: Retry
    timeout: float
    step_timeout: float | None
    expires: float | None
    priority: int
    lane: Callable[[I], str] | None
    lane_at_once: int | None
    stall_seconds: float
    finish: Pipeline[BatchEnd, Any] | None = field(default=None, repr=False)
    """The last step of its batches."""
    finish_at: float = 1.0
    """The share of the jobs that must have ended before the last step begins."""
    cron: str | None = None
    internal: bool = False
    is_async: bool
    input: Codec[I] = field(repr=False)
    output: Codec[O] = field(repr=False)
    needs: Mapping[str, Any] = field(repr=False)
    optional: Mapping[str, Any] = field(repr=False)
    """As *needs*, for keywords with a default: they are passed when a provider is configured."""

    def __call__(self, input: I, run: Run | SyncRun, /, **providers: Any) -> Any:
        """The plain function."""
        return self.handler(input, run, **providers)


def must_be_pipeline(given: object) -> None:
    """Refuse an object that is not a pipeline; the message says what was given instead."""
    if isinstance(given, Pipeline):
        return
    name = getattr(given, "__name__", None)
    if isinstance(given, str):
        raise ConfigurationError(
            f"A pipeline is needed here, and {given!r} is only a name.",
            next=f"Pass the function that has @pipeline({given!r}) above it, or app.registry.pipeline({given!r}).",
        )
    if callable(given) and name is not None:
        raise ConfigurationError(
            f"A pipeline is needed here, and {name} is a plain function: nothing says which name its jobs carry.",
            next=f'Write @pipeline("{name}") above it.',
        )
    raise ConfigurationError(
        f"A pipeline is needed here, and this is a value of type {type(given).__name__}.",
        next='Pass a function that has @pipeline("its-name") above it.',
    )


class _Definition(Protocol):
    @overload
    def __call__(self, handler: Callable[Concatenate[I, Run, P], Coroutine[Any, Any, O]], /) -> Pipeline[I, O]: ...

    @overload
    def __call__(self, handler: Callable[Concatenate[I, SyncRun, P], O], /) -> Pipeline[I, O]: ...


def pipeline(
    name: str,
    *,
    retry: Retry = Retry(),
    timeout: float = 120.0,
    step_timeout: float | None = None,
    queue: str | None = None,
    expires: float | None = None,
    priority: int = 0,
    lane: Callable[[Any], str] | None = None,
    lane_at_once: int | None = None,
    stall_seconds: float = 300.0,
    finish: Pipeline[BatchEnd, Any] | None = None,
    finish_at: float = 1.0,
    cron: str | None = None,
    internal: bool = False,
) -> _Definition:
    """Make a pipeline of a function ``(input, run, *, providers…)``.

    *timeout* applies to one attempt and *step_timeout* to one step, in seconds; *expires* is how long a job may wait in
    its queue. Each pipeline has a queue of its own unless *queue* names a shared one. *lane* sorts jobs into lanes that
    take turns, and *lane_at_once* limits how many jobs of a lane run at the same time. A batch of these jobs without
    progress for *stall_seconds* is diagnosed. With *cron*, every worker makes sure that a schedule with the pipeline's
    name exists; it enqueues a job without input at each of those times. *finish* is the last step of every batch of
    this pipeline: a pipeline that takes a ``BatchEnd`` and runs once all jobs have ended, or *finish_at* of them. Only
    the program itself enqueues jobs of an *internal* pipeline, because it vouches for their inputs: over HTTP they are
    refused.
    """
    times = {"timeout": timeout, "step_timeout": step_timeout, "expires": expires, "stall_seconds": stall_seconds}
    _check(name, queue or name, times, lane=lane, lane_at_once=lane_at_once)
    validation.whole("priority", priority, -1000, 1000)
    _check_finish(name, finish, finish_at)

    def define(handler: Callable[..., Any]) -> Pipeline[Any, Any]:
        given, kind, needs, optional, result = _signature(name, handler)
        is_async = _check_handler(name, handler, kind, given if cron is not None else None)
        return Pipeline(
            name=name,
            handler=handler,
            queue=queue or name,
            retry=retry,
            timeout=timeout,
            step_timeout=step_timeout,
            expires=expires,
            priority=priority,
            lane=lane,
            lane_at_once=lane_at_once,
            stall_seconds=stall_seconds,
            finish=finish,
            finish_at=finish_at,
            cron=cron,
            internal=internal,
            is_async=is_async,
            input=codec_of(given),
            output=codec_of(result),
            needs=needs,
            optional=optional,
        )

    return typing.cast(_Definition, define)


def _check_named(name: object) -> None:
    """Refuse ``@pipeline`` without parentheses: the function itself comes as the name."""
    if callable(name):
        called = getattr(name, "__name__", "it").replace("_", "-")
        raise ConfigurationError(
            f"@pipeline stands above {called!r} without a name; jobs in the database know their pipeline by it.",
            next=f'Write @pipeline("{called}").',
        )


def _check(
    name: str,
    queue: str,
    times: Mapping[str, float | None],
    *,
    lane: Callable[[Any], str] | None,
    lane_at_once: int | None,
) -> None:
    _check_named(name)
    validation.name("pipeline", name)
    validation.name("queue", queue)
    for what, number in times.items():
        validation.seconds(f"Pipeline {name!r}: {what}", number)
    if lane_at_once is not None and (lane is None or lane_at_once < 1):
        raise ConfigurationError(
            f"Pipeline {name!r} has lane_at_once={lane_at_once!r}; it needs lane= and at least 1.",
            next="Say which line a job belongs to: lane=lambda document: document.tenant.",
        )


def _check_handler(name: str, handler: Callable[..., Any], kind: Any, clock: Any) -> bool:
    """Whether the handler is async. *clock* is its input when it comes by the clock."""
    _check_clock(name, clock)
    is_async = asyncio.iscoroutinefunction(handler)
    if is_async == (kind is SyncRun):
        raise ConfigurationError(
            f"Pipeline {name!r}: an async handler takes a Run, a plain one takes a SyncRun.",
            next=f"Annotate its second parameter with {'Run' if is_async else 'SyncRun'}.",
        )
    return is_async


def _check_finish(name: str, finish: Pipeline[BatchEnd, Any] | None, share: float) -> None:
    if not 0 < share <= 1:
        raise ConfigurationError(
            f"Pipeline {name!r}: finish_at is a share of the jobs, such as 0.9, and is {share:g}.",
            next="1 waits for all of them.",
        )
    if finish is None:
        return
    must_be_pipeline(finish)
    if finish.name == name or finish.finish is not None:
        raise ConfigurationError(
            f"Pipeline {name!r}: the last step of a batch is another pipeline, and has no last step of its own.",
            next='Define it above: @pipeline("its-name") with (batch: BatchEnd, run: Run).',
        )
    if finish.input.annotation is not BatchEnd:
        raise ConfigurationError(
            f"Pipeline {finish.name!r} is the last step of {name!r}, and its input is not a BatchEnd.",
            next="Annotate its first parameter with retoma.BatchEnd.",
        )


def _check_clock(name: str, given: Any) -> None:
    if given not in (None, types.NoneType):
        raise ConfigurationError(
            f"Pipeline {name!r} comes by the clock and asks for an input, which the clock does not have.",
            next="Annotate its first parameter with None, or make the schedule with app.schedule.",
        )


def _signature(name: str, handler: Callable[..., Any]) -> tuple[Any, Any, dict[str, Any], dict[str, Any], Any]:
    """The annotations of a handler: input, kind of run, providers by keyword (required and optional), result."""
    try:
        hints = typing.get_type_hints(handler, include_extras=True)
    except Exception as error:
        raise ConfigurationError(
            f"The annotations of pipeline {name!r} cannot be resolved: {error}.",
            next="Import the types at module level (not under TYPE_CHECKING), or define them there.",
        ) from error
    parameters = list(inspect.signature(handler).parameters.values())
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    keywords = [each for each in parameters if each.kind is each.KEYWORD_ONLY]
    missing = [each.name for each in (*places, *keywords) if each.name not in hints]
    if len(places) != 2 or hints.get(places[1].name) not in (Run, SyncRun) or missing:  # noqa: PLR2004
        raise ConfigurationError(
            f"Pipeline {name!r} must be a function (input, run, *, providers…) with annotations"
            + (f"; {', '.join(missing)} has none." if missing else "."),
            next="For example: async def classify(document: Document, run: Run, *, chat: Chat) -> Label.",
        )
    needs = {each.name: hints[each.name] for each in keywords if each.default is inspect.Parameter.empty}
    optional = {each.name: _without_none(hints[each.name]) for each in keywords if each.name not in needs}
    return hints[places[0].name], hints[places[1].name], needs, optional, hints.get("return", Any)


def _without_none(annotation: Any) -> Any:
    """The type without its None alternative."""
    kinds = [each for each in typing.get_args(annotation) if each is not types.NoneType]
    optional = typing.get_origin(annotation) in (typing.Union, types.UnionType) and len(kinds) == 1
    return kinds[0] if optional else annotation
