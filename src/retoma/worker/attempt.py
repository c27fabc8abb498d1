"""One attempt, from claimed to ended."""

from __future__ import annotations

import asyncio
import math
import time
import traceback
import types
from collections.abc import Mapping
from concurrent.futures import Executor as Threads
from datetime import timedelta
from typing import Any

from retoma.codec import codec_of
from retoma.endings import Ending, Postpone, Reject, Review, Skip, ending_in
from retoma.errors import AnswerUnfit, CheckpointInvalid, ConfigurationError, DatabaseUnreachable, LeaseLost, Unstorable
from retoma.model import Claim, Ended
from retoma.pipeline import Pipeline
from retoma.run import Run, in_thread
from retoma.steps import Steps, Suspend
from retoma.sync_run import SyncRun

_LONGEST_ERROR = 8000
_AFTER_OUTAGE = 1.0
_LONGEST_WAIT = 30 * 86_400.0


async def attempt(
    claim: Claim, pipeline: Pipeline[Any, Any], steps: Steps, providers: Mapping[str, Any], threads: Threads
) -> Ended:
    """Run the handler of *pipeline* over the job's input and say how it ended. Never raises but when cancelled."""
    began = time.monotonic()
    try:
        ended = await _handled(claim, pipeline, steps, providers, threads)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody told this handler to stop: something it waited for was cancelled, and that is a failure like any
        # other. Given back at no cost, it would come again for ever.
        failure = RuntimeError("Something that the handler waited for was cancelled.")
        ended = ending_of(claim, pipeline, failure.with_traceback(error.__traceback__))
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is how it ended
        ended = ending_of(claim, pipeline, error)
    ended.step = None if ended.ending == "completed" else steps.last
    ended.seconds = time.monotonic() - began
    return ended


async def _handled(
    claim: Claim, pipeline: Pipeline[Any, Any], steps: Steps, providers: Mapping[str, Any], threads: Threads
) -> Ended:
    try:
        given = pipeline.input.decode(claim.input)
    except CheckpointInvalid as error:
        raise Reject(f"the input does not fit the pipeline any more: {error.message}") from None
    if pipeline.is_async:
        value = await pipeline.handler(given, Run(steps), **providers)
    else:
        run = SyncRun(steps, asyncio.get_running_loop())
        value = await in_thread(threads, pipeline.handler, given, run, **providers)
    text = pipeline.output.encode(value, what=f"the output of job {claim.id} ({pipeline.name})").text
    return Ended(claim, "completed", output=text)


def ending_of(claim: Claim, pipeline: Pipeline[Any, Any], error: BaseException) -> Ended:
    """How an attempt that raised *error* ended, in words that can be stored."""
    ended = _ending_of(claim, pipeline, error)
    ended.reason = ended.reason and storable(ended.reason)
    ended.error = ended.error and storable(ended.error)
    return ended


def _ending_of(claim: Claim, pipeline: Pipeline[Any, Any], error: BaseException) -> Ended:
    ended = Ended(claim, "failed")
    match ending_in(error) or error:
        case Suspend() as pause:
            ended.ending, ended.delay, ended.reason = pause.ending, pause.delay, pause.reason or None
            ended.signals = pause.signals
        case Skip(reason):
            ended.ending, ended.reason = "skipped", reason
        case Reject(reason):
            ended.reason, ended.error = "rejected", reason
        case Postpone(seconds, until, reason):
            ended.ending, ended.delay, ended.until, ended.reason = "postponed", seconds, until, reason or "postponed"
        case Review(value, reason):
            return _reviewed(ended, value, reason)
        case AnswerUnfit():
            # Asked again it would be answered from the store, with the same words.
            ended.reason, ended.error = "unfit", describe(error)
        case LeaseLost():
            ended.ending, ended.reason = "released", "lease"
        case DatabaseUnreachable():
            # Not the handler's fault: it costs no attempt, as long as it does not go on for ever.
            ended.ending, ended.reason, ended.delay = "postponed", "database", _AFTER_OUTAGE
            ended.error = describe(error)
        case Ending() as other:
            ended.reason, ended.error = "rejected", str(other)
        case _:
            ended.again = pipeline.retry.allows(error)
            ended.delay = pipeline.retry.delay(claim.attempt, at_least=_retry_after(error))
            ended.reason = type(error).__name__
            ended.error = describe(error)
    return ended


def _reviewed(ended: Ended, value: Any, reason: str) -> Ended:
    try:
        ended.output = codec_of(type(value)).encode(value, what=f"the proposal of job {ended.id}").text
    except (Unstorable, ConfigurationError) as error:
        ended.reason, ended.error = "unstorable", str(error)
    else:
        ended.ending, ended.reason = "review", reason
    return ended


def _retry_after(error: BaseException) -> float:
    """What the error says of when to come back, in seconds; whatever its library put there, it does no harm."""
    try:
        said = getattr(error, "retry_after", 0) or 0
        seconds = said.total_seconds() if isinstance(said, timedelta) else float(said)
    except Exception:  # noqa: BLE001 - a text, a date, a property that raises
        return 0.0
    return min(max(seconds, 0.0), _LONGEST_WAIT) if math.isfinite(seconds) else 0.0


def describe(error: BaseException) -> str:
    """*error* as text that can be stored: what, and the last frames of where."""
    try:
        head = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - its own words may fail, too
        head = type(error).__name__
    lines = "".join(traceback.format_exception(type(error), error, _users_frames(error))).strip()
    return storable(f"{head}\n\n{lines[-_LONGEST_ERROR:]}" if error.__traceback__ else head)


def _users_frames(error: BaseException) -> types.TracebackType | None:
    """The traceback from the user's first line on: the engine's own frames above it say nothing."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__", "").startswith("retoma."):
        frames = frames.tb_next
    return frames or error.__traceback__


def storable(text: str) -> str:
    """*text* without what PostgreSQL cannot hold, and not endless."""
    short = text[: 2 * _LONGEST_ERROR].replace("\0", "\ufffd")
    return short if short.isascii() else short.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
