"""A run for a synchronous handler: the same methods, without await."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast

from retoma.errors import LeaseLost
from retoma.model.endings import Suspend
from retoma.model.job import AttemptEnding, NewCheckpoint
from retoma.model.result import READABLE, Result
from retoma.providers import Chat, Embedder, Extraction, Extractor, Offers, PriceSearch, Prompt
from retoma.providers.request import Request
from retoma.run.run import LONGEST_NAP, Named, Run
from retoma.run.steps import MISSING, Steps, SyncConnection, group_of
from retoma.system import marks
from retoma.values.annotations import return_annotation
from retoma.values.codec import codec_of
from retoma.values.fingerprints import input_hash

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")


class SyncRun(Named):
    """An attempt, for a synchronous handler: the same methods as Run, without await."""

    def __init__(
        self, steps: Steps, loop: asyncio.AbstractEventLoop, configuration: dict[str, Any] | None = None
    ) -> None:
        super().__init__(steps, configuration)
        self._loop = loop

    def _wait(self, answer: Coroutine[Any, Any, T]) -> T:
        kept = marks.here()
        try:
            asked = asyncio.run_coroutine_threadsafe(self._watched(answer), self._loop)
            with nullcontext() if kept is None else kept.lifted():
                return asked.result()
        except concurrent.futures.CancelledError:
            # As in an async handler: CancelledError is no Exception, so ``except Exception`` does not catch it.
            raise asyncio.CancelledError from None

    async def _watched(self, answer: Coroutine[Any, Any, T]) -> T:
        """The result of *answer*, registered so that a cancellation of the handler cancels it first."""
        task = asyncio.current_task()
        assert task is not None
        self._steps.awaited.add(task)
        try:
            return await answer
        finally:
            self._steps.awaited.discard(task)

    def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of *function*, which runs once: a later attempt gets the value of its checkpoint instead."""
        steps = self._steps
        codec = codec_of(return_annotation(function))
        arguments = input_hash(args, kwargs)
        value = self._wait(steps.restore(name, codec, arguments))
        if value is not MISSING:
            return cast(T, value)
        began = steps.begin(name)
        # Run it in the handler's own thread: a step that took a thread from the pool could wait forever for
        # handlers that wait for it.
        try:
            value = function(*args, **kwargs)
            return cast(T, self._wait(steps.keep(name, codec, value, arguments, began)))
        finally:
            steps.leave(name)

    def map(
        self, name: str, function: Callable[[V], T], values: Iterable[V], *, key: Callable[[V], object] | None = None
    ) -> list[T]:
        """One step per value, in order, named ``name/key`` (or by position). When some fail, the others
        finish and are saved first.
        """
        answers: list[T] = []
        failures: list[tuple[str, BaseException]] = []
        for place, value in enumerate(values):
            step = f"{name}/{key(value) if key else place}"
            try:
                answers.append(self.step(step, function, value))
            except LeaseLost:
                raise
            except Exception as error:  # noqa: BLE001 - raised below, when the other steps are saved
                failures.append((step, error))
        if failures:
            raise group_of(name, failures)
        return answers

    def transact(
        self, name: str, function: Callable[Concatenate[SyncConnection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """A step whose rows and checkpoint commit together: *function* gets a connection inside a transaction."""
        steps = self._steps
        codec = codec_of(return_annotation(function))
        arguments = input_hash(args, kwargs)
        value = self._wait(steps.restore(name, codec, arguments))
        if value is not MISSING:
            return cast(T, value)
        began = steps.begin(name)
        made: list[Any] = []

        def checkpoint(value: Any) -> NewCheckpoint:
            made[:] = steps.made(name, codec, value, arguments, began)
            return cast(NewCheckpoint, made[0])

        try:
            self._wait(steps.memory.transact_sync(checkpoint, lambda connection: function(connection, *args, **kwargs)))
            steps.kept(made[0])
        finally:
            steps.leave(name)
        return cast(T, made[1])

    def call(self, name: str, request: Request[T]) -> T:
        """The answer of a provider to *request*, of whatever kind, made once and paid once."""
        return self._wait(Run(self._steps).call(name, request))

    def ask(
        self,
        name: str,
        chat: Chat,
        prompt: str | Prompt,
        *,
        into: type[T] = str,  # type: ignore[assignment]
        repairs: int = 2,
        timeout: float = 60.0,
        reuse: bool = True,
        in_doubt: Literal["retry", "hold"] = "retry",
    ) -> T:
        """The answer of a model as a value of *into*, made once and paid once."""
        asked = Run(self._steps).ask(
            name, chat, prompt, into=into, repairs=repairs, timeout=timeout, reuse=reuse, in_doubt=in_doubt
        )
        return self._wait(asked)

    def embed(
        self, name: str, embedder: Embedder, texts: Sequence[str], *, timeout: float = 60.0, reuse: bool = True
    ) -> list[list[float]]:
        """One vector per text, made once and paid once, as with ``ask``."""
        return self._wait(Run(self._steps).embed(name, embedder, texts, timeout=timeout, reuse=reuse))

    def extract(
        self,
        name: str,
        extractor: Extractor,
        file: Path,
        *,
        kind: str,
        sha256: str,
        timeout: float = 100.0,
        reuse: bool = True,
    ) -> Extraction:
        """The text and structure of *file*, made once and paid once; a file with the same *sha256*
        is not paid for again.
        """
        run = Run(self._steps)
        return self._wait(run.extract(name, extractor, file, kind=kind, sha256=sha256, timeout=timeout, reuse=reuse))

    def search(
        self,
        name: str,
        prices: PriceSearch,
        query: str,
        *,
        limit: int = 40,
        timeout: float = 60.0,
        reuse: bool = False,
    ) -> Offers:
        """Offers for *query*, made once; with *reuse*, an equal search that was answered before is not sent again."""
        return self._wait(Run(self._steps).search(name, prices, query, limit=limit, timeout=timeout, reuse=reuse))

    def results(
        self,
        into: type[T],
        *,
        states: Sequence[str] = READABLE,
        steps: Sequence[str] = (),
        after: int = 0,
        at_once: int = 200,
    ) -> Iterator[Result[T]]:
        """The results of the other jobs of this batch, in the order of their inputs, *at_once* at a time."""
        while found := self._wait(self._steps.results(into, states, steps, after=after, limit=at_once)):
            yield from found
            after = found[-1].job_id

    def sleep(self, name: str, seconds: float) -> None:
        """Sleep durably: the job leaves its worker and is queued again when the time is over."""
        left = self._wait(self._steps.nap(name, seconds))
        if left > LONGEST_NAP:
            raise Suspend(AttemptEnding.POSTPONED, delay=left, reason="sleeping")
        time.sleep(max(left, 0.0))

    def wait_for(self, signal: str, answer: type[T], *, timeout: float | None = None) -> T:
        """The value that is signalled under *signal* (see ``app.jobs.signal``); the job waits
        without occupying a worker.
        """
        return cast(T, self._wait(self._steps.signal(signal, answer, timeout)))
