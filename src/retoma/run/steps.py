"""How steps are restored and saved; shared by every kind of run."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import orjson
import psycopg

from retoma.calls.perform import Calling
from retoma.errors import CheckpointInvalid, ConfigurationError, StepsFailed
from retoma.model.endings import Reject, Suspend
from retoma.model.job import AttemptEnding, Claim, JobState, NewCheckpoint, Saved
from retoma.model.result import Result, StoredResult
from retoma.telemetry import emit, heard
from retoma.telemetry.context import who
from retoma.telemetry.events import CheckpointSetAside, StepCompleted, StepFailed, StepRestored, StepStarted
from retoma.values.codec import Codec, Misfit, codec_of
from retoma.values.fingerprints import checksum
from retoma.values.text import unstorable_mark

AsyncConnection = psycopg.AsyncConnection[Any]
SyncConnection = psycopg.Connection[Any]

_LONGEST_NAME = 200
MISSING: Final[Any] = object()
_FOR_EVER = 100 * 365 * 86_400.0


class Memory(Protocol):
    """Where a run keeps its checkpoints: the engine uses the database, a rehearsal a dictionary."""

    async def recall(self, claim: Claim) -> Sequence[Saved]:
        """The saved checkpoints, newest first; long values are left out."""

    async def read(self, claim: Claim, saved: Saved) -> str | None:
        """The value of a checkpoint that was recalled without it; None when it no longer exists."""

    async def save(self, checkpoint: NewCheckpoint) -> None:
        """Return when the checkpoint is written. Raises LeaseLost when another worker holds the job."""

    async def set_aside(self, claim: Claim, saved: Saved, reason: str) -> None: ...

    async def hear(self, claim: Claim, name: str) -> tuple[str | None, int]:
        """The value signalled under *name*, and how many signals the job has received in all."""

    async def results(
        self, claim: Claim, states: Sequence[str], steps: Sequence[str], *, after: int, limit: int
    ) -> Sequence[StoredResult]:
        """The next results of the job's batch, after a job."""

    async def transact(
        self, checkpoint: Callable[[Any], NewCheckpoint], function: Callable[[AsyncConnection], Awaitable[Any]]
    ) -> None: ...

    async def transact_sync(
        self, checkpoint: Callable[[Any], NewCheckpoint], function: Callable[[SyncConnection], Any]
    ) -> None: ...


class Watch(Protocol):
    """What the executor observes of a run."""

    worker_id: int

    def before_step(self, name: str) -> None:
        """Called before a step starts; raises when the run must not continue."""

    def after_step(self, name: str) -> None:
        """Called after a step, whether it succeeded or failed."""


class Steps:
    """What both kinds of run share: how a step is restored, and how it is saved."""

    def __init__(
        self, claim: Claim, memory: Memory, watch: Watch, *, caller: Calling, step_timeout: float | None = None
    ) -> None:
        self.claim = claim
        self.caller = caller
        self.memory = memory
        self.watch = watch
        self.step_timeout = step_timeout
        self.last: str | None = None
        self.awaited: set[asyncio.Task[Any]] = set()  # tasks on the event loop that the handler's thread waits on
        # A job that is claimed for the first time has no checkpoints.
        self._saved: dict[str, list[Saved]] | None = {} if claim.fence == 1 else None
        self._reading: asyncio.Lock | None = None
        self._doing: dict[str, float] = {}  # when each began
        self._kept: dict[str, NewCheckpoint] = {}  # saved, and its end not told yet
        self._done: set[str] = set()

    async def restore(self, name: str, codec: Codec[Any], arguments: str | None = None) -> Any:
        """The result of step *name* in an earlier attempt, or MISSING."""
        if not name or name.startswith("/") or len(name) > _LONGEST_NAME or unstorable_mark(name):
            raise ConfigurationError(
                f"A step cannot be called {name[:80]!r}.", next="Use a short path, such as 'read' or 'chapter/3'."
            )
        self._refuse_twice(name)
        saved = await self._recalled()
        for each in saved.get(name, ()):
            text = await self.memory.read(self.claim, each) if each.value is None else each.value
            if text is None:
                continue
            try:
                value = self._read(each, text, codec)
            except CheckpointInvalid as error:
                await self._set_aside(each, error.message, "damaged" if checksum(text) != each.checksum else "misfit")
            else:
                self._restored(each, arguments)
                return value
        return MISSING

    async def results(
        self, into: Any, states: Sequence[str], steps: Sequence[str], *, after: int, limit: int
    ) -> list[Result[Any]]:
        """The next results of this job's batch, after a job, with their outputs as values of *into*."""
        if self.claim.batch_id is None:
            raise ConfigurationError(
                f"Job {self.claim.id} belongs to no batch, so there are no results to read.",
                next="Read them in the last step of a batch: @pipeline(…, finish=…).",
            )
        codec = codec_of(into)
        found = await self.memory.results(self.claim, states, steps, after=after, limit=limit)
        return [_result(each, codec) for each in found]

    async def age(self, name: str) -> float | None:
        """How long ago step *name* was saved, by the database's clock."""
        found = (await self._recalled()).get(name)
        return found[0].age if found else None

    async def _recalled(self) -> dict[str, list[Saved]]:
        if self._saved is None:
            self._reading = self._reading or asyncio.Lock()
            async with self._reading:
                if self._saved is None:
                    found: dict[str, list[Saved]] = {}
                    for each in await self.memory.recall(self.claim):
                        found.setdefault(each.step, []).append(each)
                    self._saved = found
        return self._saved

    def _read(self, saved: Saved, text: str, codec: Codec[Any]) -> Any:
        if checksum(text) != saved.checksum:
            raise CheckpointInvalid("its checksum does not match: the stored value was changed or damaged")
        try:
            return codec.decode(text)
        except Misfit as misfit:
            raise CheckpointInvalid(f"What was saved is not a {misfit.kind} any more: {misfit}.") from None

    async def _set_aside(self, saved: Saved, reason: str, kind: str) -> None:
        await self.memory.set_aside(self.claim, saved, reason)
        told = CheckpointSetAside(**self._who(), step=saved.step, generation=saved.generation, reason=reason, kind=kind)
        emit(told)

    def _restored(self, saved: Saved, arguments: str | None) -> None:
        self._done.add(saved.step)
        if heard(StepRestored):
            changed = arguments is not None and saved.input_hash is not None and arguments != saved.input_hash
            emit(StepRestored(**self._who(), step=saved.step, input_changed=changed))

    def _refuse_twice(self, name: str) -> None:
        if name in self._done or name in self._doing:
            raise ConfigurationError(
                f"Step {name!r} was done already in this run of job {self.claim.id}.",
                next="Give each its own path, such as 'price/1' and 'price/2'.",
            )

    def begin(self, name: str) -> float:
        """Mark the step as started; returns the time."""
        self._refuse_twice(name)
        self.last = name
        self.watch.before_step(name)
        began = self._doing[name] = time.monotonic()
        if heard(StepStarted):
            emit(StepStarted(**self._who(), step=name))
        return began

    def leave(self, name: str) -> None:
        """Mark the step as over; a failed step may run again in the same run."""
        began, kept = self._doing.pop(name), self._kept.pop(name, None)
        self.watch.after_step(name)
        if kept is not None:
            if heard(StepCompleted):
                size, lasted = len(kept.value), kept.seconds * 1000
                emit(StepCompleted(**self._who(), step=name, duration_ms=lasted, size=size))
        elif heard(StepFailed):
            raised, lasted = sys.exc_info()[0], (time.monotonic() - began) * 1000
            error = raised.__name__ if raised else None
            emit(StepFailed(**self._who(), step=name, duration_ms=lasted, error=error))

    @asynccontextmanager
    async def in_time(self, name: str) -> AsyncIterator[None]:
        """Enforce the step time-out on the enclosed code."""
        try:
            async with asyncio.timeout(self.step_timeout) as limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise  # the TimeoutError of the step itself
            told = f"Step {name!r} of job {self.claim.id} took longer than {self.step_timeout:g} s."
            raise TimeoutError(told) from error

    def made(
        self, name: str, codec: Codec[Any], value: Any, arguments: str | None, began: float
    ) -> tuple[NewCheckpoint, Any]:
        """The checkpoint for a step that returned *value*, and the value as a later attempt would decode it."""
        encoded = codec.encode(value, what=f"what step {name!r} of job {self.claim.id} returned")
        kept = NewCheckpoint(
            self.claim.id,
            self.claim.fence,
            name,
            encoded.text,
            checksum(encoded.text),
            codec.fingerprint,
            arguments,
            time.monotonic() - began,
        )
        return kept, codec.decode(encoded.text) if encoded.changed else value

    async def keep(self, name: str, codec: Codec[Any], value: Any, arguments: str | None, began: float) -> Any:
        """Save the result of the step; returns the value as a later attempt would decode it."""
        checkpoint, value = self.made(name, codec, value, arguments, began)
        await self.memory.save(checkpoint)
        self.kept(checkpoint)
        return value

    def kept(self, checkpoint: NewCheckpoint) -> None:
        self._done.add(checkpoint.step)
        self._kept[checkpoint.step] = checkpoint

    async def nap(self, name: str, seconds: float) -> float:
        """How much of a durable sleep is left. The first call saves when it began."""
        codec = codec_of(float)
        if await self.restore(name, codec) is MISSING:
            began = self.begin(name)
            try:
                await self.keep(name, codec, float(seconds), None, began)
            finally:
                self.leave(name)
            return seconds
        return seconds - (await self.age(name) or 0.0)

    async def signal(self, name: str, answer: Any, timeout: float | None) -> Any:
        """The value signalled under *name*; suspends the run until there is one, or until *timeout*."""
        codec = codec_of(answer)
        step = f"signal/{name}"
        value = await self.restore(step, codec)
        if value is not MISSING:
            return value
        began = self.begin(step)
        try:
            text, signals = await self.memory.hear(self.claim, name)
            if text is not None:
                return await self.keep(step, codec, _decoded(codec, name, text), None, began)
        finally:
            self.leave(step)
        left = _FOR_EVER if timeout is None else await self.nap(f"{step}/until", timeout)
        if left <= 0:
            raise TimeoutError(f"Nobody signalled {name!r} to job {self.claim.id} within {timeout:g} s.")
        raise Suspend(AttemptEnding.WAITING, delay=left, reason="waiting", signals=signals)

    def _who(self) -> dict[str, Any]:
        return who(self.watch.worker_id, self.claim)


def _decoded(codec: Codec[Any], name: str, text: str) -> Any:
    try:
        return codec.decode(text)
    except Misfit as misfit:
        # The first signal under a name is kept, so another attempt would read the same value.
        raise Reject(f"what was signalled under {name!r} is not a {misfit.kind}: {misfit}.") from None


def group_of(name: str, failures: list[tuple[str, BaseException]]) -> BaseException:
    """What a map raises when all its steps are over: an ending as it is, a single error as it
    is, several as a group.
    """
    for _, error in failures:
        if not isinstance(error, Exception):
            return error
    if len(failures) == 1:
        return failures[0][1]
    told = "; ".join(f"{step}: {type(error).__name__}: {str(error)[:100]}" for step, error in failures[:5])
    return StepsFailed(f"{len(failures)} steps of {name!r} failed ({told}); the others are saved.", failures=failures)


def _result(stored: StoredResult, codec: Codec[Any]) -> Result[Any]:
    try:
        output = None if stored.output is None else codec.decode(stored.output)
    except Misfit as misfit:
        raise Reject(f"the output of job {stored.job_id} is not a {misfit.kind} any more: {misfit}.") from None
    return Result(
        stored.job_id,
        stored.key,
        JobState(stored.state),
        output,
        stored.reason,
        {} if stored.saved is None else orjson.loads(stored.saved),
    )
