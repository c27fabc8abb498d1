"""One attempt of a job, from the claim to its ending."""

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

from retoma.errors import AnswerUnfit, ConfigurationError, LeaseLost, Unstorable
from retoma.model.endings import Ending, Postpone, Reject, Review, Skip, Suspend, ending_in
from retoma.model.job import AttemptEnding, Claim, Ended
from retoma.postgres.faults import is_our_outage
from retoma.run.pipeline import Pipeline
from retoma.run.reviewing import details_of
from retoma.run.run import Run, in_thread
from retoma.run.steps import Steps
from retoma.run.sync_run import SyncRun
from retoma.values.codec import Misfit, codec_of
from retoma.values.text import storable

_LONGEST_ERROR = 8000
_AFTER_OUTAGE = 1.0
_LONGEST_WAIT = 30 * 86_400.0


async def attempt(
    pipeline: Pipeline[Any, Any],
    steps: Steps,
    providers: Mapping[str, Any],
    threads: Threads,
    *,
    configuration: dict[str, Any],
) -> Ended:
    """Run the handler of *pipeline* on the input of the job that *steps* belong to, with the *configuration* of its
    batch, and return how the attempt ended. Raises only when cancelled.
    """
    claim = steps.claim
    began = time.monotonic()
    try:
        ended = await _handled(pipeline, steps, providers, threads, configuration)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise  # the task itself was cancelled: the caller knows why
        ended = ending_of(claim, pipeline, cancelled_by_itself(error))
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is how it ended
        ended = ending_of(claim, pipeline, error)
    ended.step = None if ended.ending == AttemptEnding.COMPLETED else steps.last
    ended.seconds = time.monotonic() - began
    return ended


async def _handled(
    pipeline: Pipeline[Any, Any],
    steps: Steps,
    providers: Mapping[str, Any],
    threads: Threads,
    configuration: dict[str, Any],
) -> Ended:
    claim = steps.claim
    try:
        given = pipeline.input.decode(claim.input)
    except Misfit as misfit:
        raise Reject(f"the input does not fit the pipeline any more: {misfit}.") from None
    if pipeline.is_async:
        value = await pipeline.handler(given, Run(steps, configuration), **providers)
    else:
        run = SyncRun(steps, asyncio.get_running_loop(), configuration)
        value = await in_thread(threads, pipeline.handler, given, run, **providers)
    text = pipeline.output.encode(value, what=f"the output of job {claim.id} ({pipeline.name})").text
    return Ended(claim, AttemptEnding.COMPLETED, output=text)


def cancelled_by_itself(error: asyncio.CancelledError) -> RuntimeError:
    """The failure of a handler that raised CancelledError although its task was not cancelled: something that it
    awaited was cancelled. This counts as a failed attempt. A free release would let the job come back without end.
    """
    failure = RuntimeError("Something that the handler waited for was cancelled.")
    return failure.with_traceback(error.__traceback__)


def ending_of(claim: Claim, pipeline: Pipeline[Any, Any], error: BaseException) -> Ended:
    """How an attempt that raised *error* ended, as text that PostgreSQL can store."""
    ended = _ending_of(claim, pipeline, error)
    ended.reason = ended.reason and _bounded(ended.reason)
    ended.error = ended.error and _bounded(ended.error)
    return ended


def _ending_of(claim: Claim, pipeline: Pipeline[Any, Any], error: BaseException) -> Ended:
    ended = Ended(claim, AttemptEnding.FAILED)
    match ending_in(error) or error:
        case Suspend() as pause:
            ended.ending, ended.delay, ended.reason = pause.ending, pause.delay, pause.reason or None
            ended.signals = pause.signals
        case Skip(reason):
            ended.ending, ended.reason = AttemptEnding.SKIPPED, reason
        case Reject(reason):
            ended.reason, ended.error = "rejected", reason
        case Postpone(seconds, until, reason):
            ended.ending, ended.reason = AttemptEnding.POSTPONED, reason or "postponed"
            ended.delay, ended.until = seconds, until
        case Review() as review:
            return _reviewed(ended, review)
        case AnswerUnfit():
            # A retry would get the same answer, because the answer is stored.
            ended.reason, ended.error = "unfit", describe(error)
        case LeaseLost():
            ended.ending, ended.reason = AttemptEnding.RELEASED, "lease"
        case _ if is_our_outage(error):
            # The database caused this, not the handler, so the job is postponed and uses no attempt.
            ended.ending, ended.reason, ended.delay = AttemptEnding.POSTPONED, "database", _AFTER_OUTAGE
            ended.error = describe(error)
        case Ending() as other:
            ended.reason, ended.error = "rejected", str(other)
        case _:
            ended.again = pipeline.retry.allows(error)
            ended.delay = pipeline.retry.delay(claim.attempt, at_least=_retry_after(error))
            ended.reason = type(error).__name__
            ended.error = describe(error)
    return ended


def _reviewed(ended: Ended, review: Review) -> Ended:
    try:
        ended.output = codec_of(type(review.value)).encode(review.value, what=f"the proposal of job {ended.id}").text
        ended.review = details_of(review, what=f"a choice of job {ended.id}")
    except (Unstorable, ConfigurationError) as error:
        ended.reason, ended.error = "unstorable", str(error)
    else:
        ended.ending, ended.reason = AttemptEnding.REVIEW, review.reason
    return ended


def _retry_after(error: BaseException) -> float:
    """The seconds that the error asks to wait before a retry; 0 when the value is not a usable number."""
    try:
        said = getattr(error, "retry_after", 0) or 0
        seconds = said.total_seconds() if isinstance(said, timedelta) else float(said)
    except Exception:  # noqa: BLE001 - a text, a date, a property that raises
        return 0.0
    return min(max(seconds, 0.0), _LONGEST_WAIT) if math.isfinite(seconds) else 0.0


def describe(error: BaseException) -> str:
    """*error* as text that can be stored: the message and the last frames of the traceback."""
    try:
        head = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - its __str__ may raise, too
        head = type(error).__name__
    lines = "".join(traceback.format_exception(type(error), error, _users_frames(error))).strip()
    return _bounded(f"{head}\n\n{lines[-_LONGEST_ERROR:]}" if error.__traceback__ else head)


def _users_frames(error: BaseException) -> types.TracebackType | None:
    """The traceback from the first line of user code on; the engine's frames above it do not help."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__", "").startswith("retoma."):
        frames = frames.tb_next
    return frames or error.__traceback__


def _bounded(text: str) -> str:
    """*text* as PostgreSQL can store it, cut to a maximum length."""
    return storable(text[: 2 * _LONGEST_ERROR])
