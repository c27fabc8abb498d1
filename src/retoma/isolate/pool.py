"""The pool of child processes: which child runs which call, for how long, and how it ended."""

from __future__ import annotations

import atexit
import json
import os
import queue
import secrets
import threading
import time
from concurrent.futures import Future, InvalidStateError  # as values; its executors break when a child dies
from contextlib import suppress
from typing import Any, NamedTuple

from retoma.errors import ConfigurationError, IsolatedFailure
from retoma.isolate import channel, kernel
from retoma.isolate.child import VALUE_BYTES, Reply
from retoma.isolate.ending import Call, Sighting, decoded, explain, failure_of, garbled, oom_kills, read_reply
from retoma.isolate.launch import Child, groups
from retoma.isolate.policy import Policy
from retoma.isolate.sandbox import Letter
from retoma.system.settings import Settings

CALLS_PER_CHILD = 50
STARTS = 3
START_SECONDS = 120.0
"""How long an interpreter and the function's module may take to load."""

IDLE_SECONDS = 60.0
"""A child that was idle for this long is ended, to free its memory."""

USUAL_SECONDS = 600.0
"""How long a call may take, at least, before it needs a child with more processor time."""

TICK = 0.1
LOG_BYTES = 8_000_000


class Answer(NamedTuple):
    """The ending of a call as the child reports it, and the value that it returned."""

    reply: Reply
    value: bytes | None


def submit(call: Call) -> None:
    """Queue *call* for the next free child of its memory class and module."""
    kind = (call.megabytes, call.target.module)
    with _lock:
        if kind not in _pools:
            _pools[kind] = Pool()
        _pools[kind].submit(call)


def configure(*, children: int | None = None, policy: Policy | None = None) -> None:
    """Run at most *children* at once, for each memory class and module, sandboxed by *policy*. Applies to the calls
    that follow; the policy applies to children started from now on.
    """
    global _children, _policy  # one setting per process
    if children is not None and children < 1:
        raise ConfigurationError(f"{children} is not a number of children.", next="Say 1 or more.")
    _children, _policy = children or _children, policy or _policy


def adopt(settings: Settings) -> None:
    """Sandbox children according to *settings*, and prevent other processes of this user from inspecting this one."""
    configure(policy=Policy.of(settings))
    if settings.sandbox != "off":
        kernel.hide()


def current_policy() -> Policy:
    """The sandbox policy: as configured, else from the environment."""
    return _policy or Policy.of(Settings.load())


def shutdown() -> None:
    """End every child and cancel running calls. A later call starts new children."""
    with _lock:
        pools = list(_pools.values())
        _pools.clear()
    for pool in pools:
        pool.end()


class Pool:
    """The cells of one memory class and module, each kept by a thread of its own."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._open: set[Future[Any]] = set()
        self._keepers: list[threading.Thread] = []

    def submit(self, call: Call) -> None:
        self._open.add(call.future)
        call.future.add_done_callback(self._open.discard)
        self._calls.put(call)
        if len(self._keepers) < min(len(self._open), _children):
            # This thread launches the children, not the caller's: Linux sends the parent-death signal when the
            # launching thread ends, even if its process lives on.
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
        cell = Cell()
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
    except BaseException as error:  # noqa: BLE001  # it belongs to the caller that waits
        with suppress(InvalidStateError):  # abandoned meanwhile
            call.future.set_exception(error)
    else:
        with suppress(InvalidStateError):
            call.future.set_result(value)


class Cell:
    """A place for one child at a time. After a failure its child is ended, and the next call gets a new one."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._policy: Policy
        self._seconds = 0.0
        self._ready = False
        self._calls = 0

    def run(self, call: Call) -> Any:
        """The return value of *call*; raises its error, or the reason of the child's death."""
        for _ in range(STARTS):
            child = self._open(call)
            seen = Sighting(deadline=time.monotonic() + START_SECONDS, oom_kills=oom_kills())
            try:
                answer = self._follow(child, call, seen)
                if call.future.given_up:
                    self.close()
                    return None
                if answer is not None:
                    return self._answer(child, call, answer)
            except channel.Garbled as error:
                tail = child.tail()
                self.close()  # whatever else it sends does not belong to the next call
                raise garbled(call, error, tail) from error
            finally:
                call.ended = time.monotonic()
            self._bury(child, seen)
            if seen.begun or seen.overdue or seen.unable:
                break
            # It was killed before the call started, while idle or loading: that is not this call's fault.
        raise explain(call, seen)

    def _open(self, call: Call) -> Child:
        """The current child if it is suitable, or a new one."""
        child = self._child
        if child is not None and self._seconds >= call.seconds and child.exitcode is None and child.line.is_idle:
            child.forget_log()
            return child
        self.close()
        self._policy = current_policy()
        self._seconds = max(call.seconds, USUAL_SECONDS)
        letter = Letter(
            parent=os.getpid(),
            folder="",
            path=call.target.path,
            module=call.target.module,
            main=call.target.main,
            megabytes=call.megabytes,
            processor_seconds=int(self._seconds * (os.cpu_count() or 1) * CALLS_PER_CHILD),
            sandbox=self._policy.sandbox,
            read=self._policy.read,
            private=self._policy.private,
            without=self._policy.without,
        )
        try:
            self._child = Child(letter, self._policy, most=VALUE_BYTES)
        except OSError as error:
            raise IsolatedFailure(
                f"No child process could be launched: {error}.",
                next="Look at the limits of this machine: processes, memory, open files, room for temporary files.",
            ) from error
        self._ready, self._calls = False, 0
        return self._child

    def close(self) -> None:
        """Kill the child, if there is one, and forget it."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _follow(self, child: Child, call: Call, seen: Sighting) -> Answer | None:
        """The child's answer, or None when it died or must be killed."""
        names = [str(each) for each in call.files] if self._policy.sandbox == "off" else child.give(call.files)
        seen.number = secrets.token_hex(8)
        asked = {"number": seen.number, "name": call.target.name, "seconds": call.seconds, "files": names}
        child.line.say(channel.CALL, json.dumps(asked).encode())
        child.line.say(channel.ARGUMENTS, call.arguments)
        seen.ready = self._ready
        hung_up = False
        while not call.future.given_up:
            heard = 0
            try:
                for kind, body in child.line.hear(TICK):
                    heard += 1
                    if (answer := self._heed(call, seen, kind, body)) is not None:
                        return answer
            except (EOFError, OSError):
                if hung_up:
                    time.sleep(TICK)
                hung_up = True
            if not heard:
                seen.peak_megabytes = child.sample() or seen.peak_megabytes
                child.forget_log(above=LOG_BYTES)
                if hung_up and child.exitcode is not None:
                    return None  # everything that it had sent was read
            seen.overdue = time.monotonic() > seen.deadline
            if seen.overdue:
                return None
        return None

    def _heed(self, call: Call, seen: Sighting, kind: bytes, body: bytes) -> Answer | None:
        match kind:
            case channel.READY:
                seen.ready = self._ready = True
            case channel.BEGUN if not seen.begun and body == seen.number.encode():  # once: else its time starts anew
                # The monotonic clock cannot be set.
                call.began = time.monotonic()
                seen.begun, seen.deadline = True, call.began + call.seconds
            case channel.NOTE if seen.notes < channel.NOTES:
                call.last, seen.notes = body, seen.notes + 1
            case channel.VALUE if seen.value is None:
                seen.value = body
            case channel.REPLY:
                reply = read_reply(body)
                if reply.number != seen.number:  # a child cannot know the number before the call is made
                    raise channel.Garbled("the answer to another call")
                return Answer(reply, seen.value)
            case _:
                raise channel.Garbled(f"a piece of the kind {kind!r} that is none of this call")
        return None

    def _answer(self, child: Child, call: Call, answer: Answer) -> Any:
        tail = child.tail()
        value = decoded(call, answer.value) if answer.reply.kind == "value" else None
        child.take_back()
        self._calls += 1
        if answer.reply.worn or self._calls == CALLS_PER_CHILD or call.alone or answer.reply.kind == "unconfined":
            self.close()
        if answer.reply.kind == "value":
            return value
        raise failure_of(call, answer.reply, tail)

    def _bury(self, child: Child, seen: Sighting) -> None:
        """Record why the child died."""
        if not seen.overdue:
            seen.exit_code = child.exitcode
        seen.tail = child.tail()
        self.close()
        seen.peak_megabytes = max(child.peak_megabytes or 0, seen.peak_megabytes or 0) or None


def forget_pools() -> None:
    """In a forked process: the children belong to the parent, and the keeper threads were not copied."""
    global _lock  # noqa: PLW0603  # it may have been held when the fork happened
    _lock = threading.Lock()
    _pools.clear()
    groups.forget_all()


_lock = threading.Lock()
_pools: dict[tuple[int, str], Pool] = {}
_children = os.cpu_count() or 1
_policy: Policy | None = None

atexit.register(shutdown)
os.register_at_fork(after_in_child=forget_pools)
