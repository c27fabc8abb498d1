"""The children of this process: who runs which call, for how long, and how it ended."""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
from concurrent.futures import Future, InvalidStateError  # as values; its executors break when a child dies
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, cast

from pebble import ProcessPool
from pebble.common.types import MultiprocessingContext

from retoma.errors import ConfigurationError, IsolatedFailure
from retoma.isolate.child import Reply, confine, perform
from retoma.isolate.ending import Call, Sighting, explain, oom_kills, value_of
from retoma.isolate.launch import Child, Launcher

CALLS_PER_CHILD = 50
STARTS = 3
START_SECONDS = 120.0
"""How long an interpreter and the function's module may take to load."""

IDLE_SECONDS = 60.0
"""A child without work for so long is ended, and its memory given back."""

TICK = 0.1
LOG_BYTES = 8_000_000


def submit(call: Call) -> None:
    """Have *call* run by the next free child of its memory class."""
    with _lock:
        if call.megabytes not in _pools:
            _pools[call.megabytes] = Pool(call.megabytes)
        _pools[call.megabytes].submit(call)


def configure(*, children: int) -> None:
    """Let at most *children* run at once, in each memory class; counts for the calls that follow."""
    global _children  # noqa: PLW0603  # one setting per process
    if children < 1:
        raise ConfigurationError(f"{children} children can run nothing.", next="Say 1 or more.")
    _children = children


def shutdown() -> None:
    """End every child; calls that still run are cancelled. A later call starts anew."""
    with _lock:
        pools = list(_pools.values())
        _pools.clear()
    for pool in pools:
        pool.end()


class Pool:
    """The cells of one memory class, each kept by a thread of its own."""

    def __init__(self, megabytes: int) -> None:
        self._megabytes = megabytes
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._open: set[Future[Any]] = set()
        self._keepers: list[threading.Thread] = []

    def submit(self, call: Call) -> None:
        self._open.add(call.future)
        call.future.add_done_callback(self._open.discard)
        self._calls.put(call)
        if len(self._keepers) < min(len(self._open), _children):
            # Children are launched by this thread and not by the caller's: Linux sends the
            # parent-death signal when the launching thread ends, however alive its process is.
            keeper = threading.Thread(target=self._keep, name="retoma-isolated", daemon=True)
            self._keepers.append(keeper)
            keeper.start()

    def end(self) -> None:
        for future in list(self._open):
            future.cancel()
        for _ in self._keepers:
            self._calls.put(None)
        for keeper in self._keepers:
            keeper.join()

    def _keep(self) -> None:
        cell = Cell(self._megabytes)
        while self._serve(cell):
            pass
        cell.close()

    def _serve(self, cell: Cell) -> bool:
        try:
            call = self._calls.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            cell.close()
            return True
        if call is not None and call.future.set_running_or_notify_cancel():
            settle(call, cell)
        return call is not None


def settle(call: Call, cell: Cell) -> None:
    try:
        value = cell.run(call)
    except BaseException as error:  # noqa: BLE001  # it belongs to whoever waits for the call
        with suppress(InvalidStateError):  # cancelled meanwhile
            call.future.set_exception(error)
    else:
        with suppress(InvalidStateError):
            call.future.set_result(value)


class Cell:
    """A place for one child at a time, with a pebble pool of its own.

    Of its own, because the children of one pebble pool share a pipe and a lock: one that dies while
    it holds them blocks its siblings (noxdafox/pebble#163), and one that dies before pebble has read
    its acknowledgement breaks the pool. After any failure the pool is closed; the next call opens another.
    """

    def __init__(self, megabytes: int) -> None:
        self._megabytes = megabytes
        self._pool: ProcessPool | None = None
        self._child: Child
        self._line: Connection
        self._ready = False
        self._calls = 0

    def run(self, call: Call) -> Any:
        """What *call* returned; raises what it raised, or how it died."""
        for _ in range(STARTS):
            self._open()
            seen = Sighting(deadline=time.monotonic() + START_SECONDS, oom_kills=oom_kills())
            reply = self._follow(call, seen)
            if call.future.cancelled():
                self.close()
                return None
            if reply is not None:
                return self._answer(call, reply)
            self._bury(seen)
            if seen.begun or seen.overdue or seen.unable:
                break
            # Killed before it had begun, while it idled or loaded: that is not this call's fault.
        raise explain(call, seen)

    def _open(self) -> None:
        if self._pool is not None and self._child.exitcode is None:
            self._child.launched.forget()
            return
        self.close()
        launcher = Launcher()
        line, child_end = get_context("spawn").Pipe(duplex=False)
        pool = ProcessPool(
            max_workers=1,
            initializer=confine,
            initargs=(child_end, os.getpid(), self._megabytes),
            context=cast(MultiprocessingContext, launcher),  # it has all that pebble uses of one
        )
        with child_end:
            try:
                assert pool.active  # to ask is to start
                assert launcher.child is not None
            except Exception as error:
                line.close()
                raise IsolatedFailure(
                    f"No child process could be launched: {error.__cause__ or error}.",
                    next="Look at the limits of this machine: processes, memory, open files.",
                ) from error
        self._pool, self._line, self._child = pool, line, launcher.child
        self._ready, self._calls = False, 0

    def close(self) -> None:
        """Kill the child, if there is one, and forget it."""
        if self._pool is not None:
            self._pool.stop()  # type: ignore[no-untyped-call]  # pebble's
            self._pool.join()
            self._pool = None
            self._line.close()
            # By hand: pebble's pools refer to themselves, and would hold the descriptors until a collection.
            self._child.launched.close()

    def _follow(self, call: Call, seen: Sighting) -> Reply | None:
        """The child's reply, or nothing when it died or must be killed."""
        assert self._pool is not None
        wake = threading.Event()
        try:
            answer = self._pool.schedule(perform, args=(call.target, call.arguments, call.seconds))
        except RuntimeError:  # the child has died this very moment
            self._look(call, seen)
            return None
        for future in (answer, call.future):
            future.add_done_callback(lambda _: wake.set())
        while not wake.wait(TICK):
            self._look(call, seen)
            if self._child.exitcode is not None:
                wake.wait(1)  # its last message may be on the way
                break
            seen.overdue = time.monotonic() > seen.deadline
            if seen.overdue:
                break
        self._look(call, seen)
        return answer.result() if answer.done() and answer.exception() is None else None

    def _look(self, call: Call, seen: Sighting) -> None:
        with suppress(EOFError, OSError):
            while self._line.poll():
                word = self._line.recv_bytes()
                self._ready = True
                if word == b"begun":
                    # By a clock that nobody sets; pebble's own time-out follows the wall clock.
                    seen.begun, seen.deadline = True, time.monotonic() + call.seconds
        seen.ready = self._ready
        seen.peak_megabytes = self._child.sample() or seen.peak_megabytes
        self._child.launched.forget(above=LOG_BYTES)

    def _answer(self, call: Call, reply: Reply) -> Any:
        tail = self._child.launched.tail()
        self._calls += 1
        if reply.worn or self._calls == CALLS_PER_CHILD:
            self.close()
        return value_of(call, reply, tail)

    def _bury(self, seen: Sighting) -> None:
        """Write down what the child died of."""
        if not seen.overdue:
            seen.exit_code = self._child.exitcode
        launched = self._child.launched
        seen.tail = launched.tail()
        self.close()
        seen.peak_megabytes = max(launched.peak_megabytes or 0, seen.peak_megabytes or 0) or None


def forget_pools() -> None:
    """In a process forked from this one: the children are not its own, and no keeper came along."""
    global _lock  # noqa: PLW0603  # it may have been held when the fork happened
    _lock = threading.Lock()
    _pools.clear()


_lock = threading.Lock()
_pools: dict[int, Pool] = {}
_children = os.cpu_count() or 1

atexit.register(shutdown)  # after pebble's own, so it comes before it and nothing is left to kill
os.register_at_fork(after_in_child=forget_pools)
