"""A run: an attempt seen from inside its handler. Each step runs once; a later attempt gets its saved result."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Executor as Threads
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast, overload

from retoma.calls.perform import perform
from retoma.errors import ConfigurationError
from retoma.isolate import Isolated
from retoma.model.endings import Suspend
from retoma.model.job import AttemptEnding, NewCheckpoint
from retoma.model.result import READABLE, Result
from retoma.providers import Chat, Embedder, Extraction, Extractor, Offers, PriceSearch, Prompt
from retoma.providers.request import Request
from retoma.providers.requests.ask import Ask
from retoma.providers.requests.embed import Embed
from retoma.providers.requests.extract import extract
from retoma.providers.requests.search import Search
from retoma.run.steps import MISSING, AsyncConnection, Steps, group_of
from retoma.system.concurrency import finish_before_cancel
from retoma.values.annotations import return_annotation
from retoma.values.codec import codec_of
from retoma.values.fingerprints import input_hash

P = ParamSpec("P")
T = TypeVar("T")
V = TypeVar("V")

LONGEST_NAP = 1.0


class Named:
    """What every kind of run knows about its job."""

    def __init__(self, steps: Steps, configuration: dict[str, Any] | None = None) -> None:
        self._steps = steps
        self._configuration = configuration or {}

    @property
    def job(self) -> int:
        """The job's id."""
        return self._steps.claim.id

    @property
    def key(self) -> str | None:
        """The caller's own name for the input."""
        return self._steps.claim.key

    @property
    def attempt(self) -> int:
        """Which attempt this is; the first is 1."""
        return self._steps.claim.attempt

    @property
    def batch(self) -> int | None:
        """The batch this job belongs to."""
        return self._steps.claim.batch_id

    @property
    def configuration(self) -> dict[str, Any]:
        """What the batch was created with (prompt, model, parameters); empty for a job without a batch."""
        return self._configuration

    @property
    def correlation_id(self) -> str | None:
        """The id that follows this work from the first request to the last write."""
        return self._steps.claim.correlation_id

    @property
    def token(self) -> str:
        """Job and fence: an outside system can use them to refuse a stale worker."""
        return f"{self._steps.claim.id}:{self._steps.claim.fence}"


class Run(Named):
    """An attempt, for an async handler."""

    @overload
    async def step(
        self, name: str, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @overload
    async def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The result of *function*, which runs once: a later attempt gets the value of its checkpoint instead."""
        steps = self._steps
        codec = codec_of(return_annotation(function))
        arguments = input_hash(args, kwargs)
        value = await steps.restore(name, codec, arguments)
        if value is not MISSING:
            return value
        began = steps.begin(name)
        try:
            async with steps.in_time(name):
                value = await _call(function, *args, **kwargs)
            return await steps.keep(name, codec, value, arguments, began)
        finally:
            steps.leave(name)

    @overload
    async def map(
        self,
        name: str,
        function: Callable[[V], Coroutine[Any, Any, T]],
        values: Iterable[V],
        *,
        key: Callable[[V], object] | None = None,
        at_once: int = 8,
    ) -> list[T]: ...

    @overload
    async def map(
        self,
        name: str,
        function: Callable[[V], T],
        values: Iterable[V],
        *,
        key: Callable[[V], object] | None = None,
        at_once: int = 8,
    ) -> list[T]: ...

    async def map(
        self,
        name: str,
        function: Callable[[Any], Any],
        values: Iterable[Any],
        *,
        key: Callable[[Any], object] | None = None,
        at_once: int = 8,
    ) -> list[Any]:
        """One step per value, *at_once* at a time, named ``name/key`` (or by position). When some fail, the others
        finish and are saved first.
        """
        if at_once < 1:
            raise ConfigurationError(
                f"run.map({name!r}, at_once={at_once}) would never begin.", next="Let 1 or more run."
            )
        room = asyncio.Semaphore(at_once)
        values = list(values)
        names = [f"{name}/{key(value) if key else place}" for place, value in enumerate(values)]

        async def one(step: str, value: Any) -> Any:
            async with room:
                return await self.step(step, function, value)

        answers = await asyncio.gather(
            *(one(step, value) for step, value in zip(names, values, strict=True)), return_exceptions=True
        )
        failures = [(step, each) for step, each in zip(names, answers, strict=True) if isinstance(each, BaseException)]
        if failures:
            raise group_of(name, failures)
        return answers

    async def transact(
        self,
        name: str,
        function: Callable[Concatenate[AsyncConnection, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """A step whose rows and checkpoint commit together: *function* gets a connection inside a transaction."""
        steps = self._steps
        codec = codec_of(return_annotation(function))
        arguments = input_hash(args, kwargs)
        value = await steps.restore(name, codec, arguments)
        if value is not MISSING:
            return cast(T, value)
        began = steps.begin(name)
        made: list[Any] = []

        def checkpoint(value: Any) -> NewCheckpoint:
            made[:] = steps.made(name, codec, value, arguments, began)
            return cast(NewCheckpoint, made[0])

        try:
            async with steps.in_time(name):
                await steps.memory.transact(checkpoint, lambda connection: function(connection, *args, **kwargs))
            steps.kept(made[0])
        finally:
            steps.leave(name)
        return cast(T, made[1])

    async def call(self, name: str, request: Request[T]) -> T:
        """The answer of a provider to *request*, of whatever kind, made once and paid once. ``ask``, ``embed``,
        ``extract`` and ``search`` are short forms of it.
        """
        steps, codec = self._steps, codec_of(request.answer_type)
        if (value := await steps.restore(name, codec)) is not MISSING:
            return cast(T, value)
        began = steps.begin(name)
        try:
            async with steps.in_time(name):
                answer = await perform(steps.caller, steps.claim, name, request)
            return cast(T, await steps.keep(name, codec, answer, None, began))
        finally:
            steps.leave(name)

    async def ask(
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
        """The answer of a model as a value of *into*, made once and paid once.

        An equal request that was answered before is not sent again, unless *reuse* is False. An answer that does not
        fit is sent back for repair at most *repairs* times. When an earlier attempt sent the request and its answer is
        unknown, the request is sent again (and counted), or a person decides (``in_doubt="hold"``).
        """
        return await self.call(
            name,
            Ask(
                chat=chat,
                prompt=prompt,
                into=into,
                repairs=repairs,
                timeout=timeout,
                reuse=reuse,
                in_doubt=in_doubt,
            ),
        )

    async def embed(
        self, name: str, embedder: Embedder, texts: Sequence[str], *, timeout: float = 60.0, reuse: bool = True
    ) -> list[list[float]]:
        """One vector per text, made once and paid once, as with ``ask``."""
        return await self.call(name, Embed(embedder=embedder, texts=texts, timeout=timeout, reuse=reuse))

    async def extract(
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
        """The text and structure of *file*, made once and paid once; a file with the same *sha256* is not paid for
        again.

        The raw answer stays with the call and is not part of the checkpoint.
        """
        request = extract(extractor, file, kind=kind, sha256=sha256, timeout=timeout, reuse=reuse)
        return await self.call(name, request)

    async def search(
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
        return await self.call(name, Search(prices=prices, query=query, most=limit, timeout=timeout, reuse=reuse))

    async def results(
        self,
        into: type[T],
        *,
        states: Sequence[str] = READABLE,
        steps: Sequence[str] = (),
        after: int = 0,
        at_once: int = 200,
    ) -> AsyncIterator[Result[T]]:
        """The results of the other jobs of this batch, in the order of their inputs: their outputs as values of *into*,
        and what the named *steps* saved. They are read *at_once* at a time, so that a batch of any size fits into
        memory, and as they stand now: nothing of it is saved. *after* is the job from which on to read.
        """
        while found := await self._steps.results(into, states, steps, after=after, limit=at_once):
            for each in found:
                yield each
            after = found[-1].job_id

    async def sleep(self, name: str, seconds: float) -> None:
        """Sleep durably: the job leaves its worker and is queued again when the time is over."""
        left = await self._steps.nap(name, seconds)
        if left > LONGEST_NAP:
            raise Suspend(AttemptEnding.POSTPONED, delay=left, reason="sleeping")
        await asyncio.sleep(max(left, 0.0))

    async def wait_for(self, signal: str, answer: type[T], *, timeout: float | None = None) -> T:
        """The value that is signalled under *signal* (see ``app.jobs.signal``); the job waits
        without occupying a worker.
        """
        return cast(T, await self._steps.signal(signal, answer, timeout))


async def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call *function* where it belongs: in a sandboxed child when it is isolated, in a thread
    when it blocks, else here.
    """
    if isinstance(function, Isolated):
        return await function.run(*args, **kwargs)
    if asyncio.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    answer = await in_thread(None, function, *args, **kwargs)
    # A callable object or a partial can return an awaitable without being a coroutine function.
    return await answer if isinstance(answer, Awaitable) else answer


async def in_thread(pool: Threads | None, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run *function* in a thread. Threads cannot be cancelled: a cancelled caller waits until the thread is done, so
    that its slot is not given to another handler. Past the time-out the supervisor kills the whole executor.
    """
    context = contextvars.copy_context()
    call = functools.partial(context.run, function, *args, **kwargs)
    return await finish_before_cancel(asyncio.get_running_loop().run_in_executor(pool, call))
