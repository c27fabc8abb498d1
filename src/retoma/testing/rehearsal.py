"""Runs a handler once, without a database: its checkpoints are in a dictionary."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Generic, TypeVar, cast

import orjson
from pydantic_core import PydanticSerializationError, to_json

from retoma.errors import ConfigurationError
from retoma.isolate import Isolated
from retoma.model.endings import Review, ending_in
from retoma.model.job import AttemptEnding, Claim, Ended, NewCheckpoint, Saved
from retoma.model.last_step import BatchEnd
from retoma.model.result import Result, StoredResult
from retoma.providers import Answer
from retoma.providers.request import Request
from retoma.run.pipeline import Pipeline
from retoma.run.run import Run
from retoma.run.steps import AsyncConnection, Steps, SyncConnection
from retoma.run.sync_run import SyncRun
from retoma.values.fingerprints import checksum
from retoma.worker.attempt import attempt as attempt_once

In = TypeVar("In")
Out = TypeVar("Out")

_LONG_AGO = 1e9
_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal(Generic[Out]):
    """The result of a handler without a database."""

    ending: AttemptEnding
    """*completed*, *skipped*, *failed*, *postponed*, *waiting* or *review*."""
    reason: str | None
    """Why it ended this way, as the job would store it."""
    error: str | None
    """The error that the job would store."""
    raised: BaseException | None
    """The exception itself, if the handler raised one."""
    again: bool
    """Whether a failed attempt would be retried, as long as attempts are left."""
    delay: float | None
    """In how many seconds it would continue."""
    done: list[str]
    """The steps that ran, in order."""
    restored: list[str]
    """The steps whose checkpoint was restored, in order."""
    set_aside: dict[str, str]
    """The checkpoints that no longer fit, and why."""
    checkpoints: dict[str, Any]
    """The checkpoints after the run, as plain JSON."""
    returned: Any = field(repr=False)

    @property
    def output(self) -> Out:
        """What the handler returned (or proposed for review), as the job's output would be decoded."""
        if self.ending not in {AttemptEnding.COMPLETED, AttemptEnding.REVIEW}:
            why = self.error or self.reason or "no reason was given"
            raise AssertionError(f"The rehearsal ended {self.ending} and has no output: {why}") from self.raised
        return cast(Out, self.returned)


async def rehearse(
    pipeline: Pipeline[In, Out],
    input: In,
    *,
    saved: Mapping[str, Any] | None = None,
    signals: Mapping[str, Any] | None = None,
    connection: Any = None,
    attempt: int = 1,
    configuration: Mapping[str, Any] | None = None,
    results: Sequence[Result[Any]] = (),
    isolated: bool = True,
    **providers: Any,
) -> Rehearsal[Out]:
    """Run a handler once, without a database.

    *saved* is the past: the result of each step in an earlier attempt. *signals* are the signals that have arrived.
    ``run.transact`` gets *connection*, which may be a fake. Isolated functions run in their child unless *isolated* is
    False. *configuration* is that of its batch, and *results* are those of the other jobs of it. The handler's
    providers are passed by keyword.
    """
    if missing := sorted(pipeline.needs.keys() - providers.keys()):
        raise ConfigurationError(
            f"Pipeline {pipeline.name!r} asks for {', '.join(missing)}, and this rehearsal has none.",
            next=f"Pass {missing[0]}=… to rehearse, the real one or a fake.",
        )
    claim = _claim_of(pipeline, input, attempt, again=bool(saved))
    memory = _Notebook(saved or {}, signals or {}, connection, results)
    steps = _Steps(claim, memory, _Nobody(), caller=_Straight(), step_timeout=pipeline.step_timeout)
    raised: list[BaseException] = []
    rehearsed = replace(pipeline, handler=_watched(pipeline, raised, isolated=isolated))
    with ThreadPoolExecutor(1, thread_name_prefix="rehearsal") as threads:
        given = dict(configuration or {})
        ended = await attempt_once(rehearsed, steps, providers, threads, configuration=given)
    return Rehearsal(
        ending=ended.ending,
        reason=ended.reason,
        error=ended.error,
        raised=raised[0] if raised else None,
        again=ended.again,
        delay=ended.delay,
        done=memory.done,
        restored=memory.restored,
        set_aside=memory.aside,
        checkpoints={name: orjson.loads(text) for name, text in memory.texts.items()},
        returned=_returned(pipeline, ended, raised),
    )


def _claim_of(pipeline: Pipeline[In, Any], input: In, attempt: int, *, again: bool) -> Claim:
    return Claim(
        id=next(_numbers),
        batch_id=input.batch_id if isinstance(input, BatchEnd) else None,
        queue=pipeline.queue,
        lane_id=0,
        pipeline=pipeline.name,
        key=None,
        attempt=attempt,
        max_attempts=max(attempt, pipeline.retry.attempts),
        crashes=0,
        # Only a job that was claimed before can have checkpoints.
        fence=2 if again else 1,
        signals=0,
        timeout_seconds=pipeline.timeout,
        correlation_id=None,
        traceparent=None,
        input=pipeline.input.encode(input, what=f"the input of a {pipeline.name!r} job").text,
    )


def _returned(pipeline: Pipeline[Any, Any], ended: Ended, raised: Sequence[BaseException]) -> Any:
    if ended.ending == AttemptEnding.REVIEW:
        review = ending_in(raised[0])
        return review.value if isinstance(review, Review) else None
    return None if ended.output is None else pipeline.output.decode(ended.output)


def _watched(pipeline: Pipeline[Any, Any], raised: list[BaseException], *, isolated: bool) -> Callable[..., Any]:
    """The handler of *pipeline*, which notes what it raises; its run may call isolated functions in this process."""

    async def handler(given: Any, run: Run, **providers: Any) -> Any:
        try:
            plain = run if isolated else _PlainRun(run._steps, run.configuration)  # noqa: SLF001
            return await pipeline.handler(given, plain, **providers)
        except BaseException as error:
            raised.append(error)
            raise

    def sync_handler(given: Any, run: SyncRun, **providers: Any) -> Any:
        try:
            plain = run if isolated else _PlainSyncRun(run._steps, run._loop, run.configuration)  # noqa: SLF001
            return pipeline.handler(given, plain, **providers)
        except BaseException as error:
            raised.append(error)
            raise

    return handler if pipeline.is_async else sync_handler


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return function.function if isinstance(function, Isolated) else function


class _PlainRun(Run):
    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return await super().step(name, _plain(function), *args, **kwargs)


class _PlainSyncRun(SyncRun):
    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return super().step(name, _plain(function), *args, **kwargs)


class _Nobody:
    """An observer that does nothing."""

    worker_id = 0

    def before_step(self, name: str) -> None: ...

    def after_step(self, name: str) -> None: ...


class _Notebook:
    """A run's checkpoints in a dictionary."""

    def __init__(
        self, saved: Mapping[str, Any], signals: Mapping[str, Any], connection: Any, results: Sequence[Result[Any]]
    ) -> None:
        self.texts = {name: _json(value, f"saved[{name!r}]") for name, value in saved.items()}
        self.done: list[str] = []
        self.restored: list[str] = []
        self.aside: dict[str, str] = {}
        self._signals = {name: _json(value, f"signals[{name!r}]") for name, value in signals.items()}
        self._connection = connection
        self._results = [_stored(each) for each in results]

    async def recall(self, _claim: Claim) -> list[Saved]:
        return [
            Saved(name, 1, text, checksum(text), fingerprint="", input_hash=None, fence=1, age=_LONG_AGO)
            for name, text in self.texts.items()
        ]

    async def read(self, _claim: Claim, saved: Saved) -> str | None:
        return saved.value

    async def save(self, checkpoint: NewCheckpoint) -> None:
        self.texts[checkpoint.step] = checkpoint.value
        self.done.append(checkpoint.step)

    async def set_aside(self, _claim: Claim, saved: Saved, reason: str) -> None:
        self.aside[saved.step] = reason
        del self.texts[saved.step]

    async def hear(self, _claim: Claim, name: str) -> tuple[str | None, int]:
        return self._signals.get(name), 0

    async def results(
        self, _claim: Claim, states: Sequence[str], steps: Sequence[str], *, after: int, limit: int
    ) -> list[StoredResult]:
        wanted = [each for each in self._results if each.job_id > after and each.state in states]
        return [replace(each, saved=_only(each.saved, steps)) for each in wanted[:limit]]

    async def transact(
        self, checkpoint: Callable[[Any], NewCheckpoint], function: Callable[[AsyncConnection], Awaitable[Any]]
    ) -> None:
        await self.save(checkpoint(await function(self._lent())))

    async def transact_sync(
        self, checkpoint: Callable[[Any], NewCheckpoint], function: Callable[[SyncConnection], Any]
    ) -> None:
        await self.save(checkpoint(await asyncio.to_thread(function, self._lent())))

    def _lent(self) -> Any:
        if self._connection is None:
            raise ConfigurationError(
                "run.transact needs a connection, and this rehearsal has none.",
                next="Pass connection=… to rehearse, a real one or a fake.",
            )
        return self._connection


class _Straight:
    """Sends every request and records nothing."""

    async def unfit(self, numbers: Sequence[int]) -> None:
        """There is no store in which to mark it."""

    async def call(self, claim: Claim | None, step: str, request: Request[Any], *, kind: str = "first") -> Answer:  # noqa: ARG002
        return await request.send()


class _Steps(Steps):
    memory: _Notebook

    def _restored(self, saved: Saved, arguments: str | None) -> None:
        self.memory.restored.append(saved.step)
        super()._restored(saved, arguments)


def _stored(result: Result[Any]) -> StoredResult:
    output = None if result.output is None else _json(result.output, "the output of a result")
    saved = _json(result.steps, "the steps of a result")
    return StoredResult(result.job_id, result.key, str(result.state), result.reason, output, saved)


def _only(saved: str | None, steps: Sequence[str]) -> str:
    return _json({name: value for name, value in orjson.loads(saved or "{}").items() if name in steps}, "steps")


def _json(value: Any, what: str) -> str:
    try:
        return to_json(value, bytes_mode="base64", inf_nan_mode="constants").decode()
    except (PydanticSerializationError, ValueError) as error:
        raise ConfigurationError(
            f"{what} cannot be written as JSON: {error}.", next="Give what the step returns, or the JSON of it."
        ) from error
