"""What runs inside the child of an isolated function: its limits, the call, and the reply."""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import inspect
import math
import os
import pickle
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import spawn
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

from retoma.isolate.launch import LINUX, memory

OPEN_FILES = 256
RESERVE_BYTES = 4_000_000
MEGABYTE = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a child finds the function: by name, because the module's attribute is the wrapper."""

    module: str
    name: str
    main: Mapping[str, str]
    """How to load the main module, when the function lives there."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a child says of a call that did not kill it."""

    kind: Literal["value", "error", "memory", "unsendable", "unprepared"]
    body: bytes = b""
    text: str = ""
    peak_megabytes: float | None = None
    worn: bool = False
    """The child kept so much memory that the next call would have less than a quarter of what it may use."""


inside = False
"""Whether this process is a child: an isolated function that calls another runs it right here."""

_line: Connection
_allowance = 0
_megabytes = 0


def confine(line: Connection, parent: int, megabytes: int) -> None:
    """Make this process harmless, before it has seen any input."""
    global inside, _line, _allowance, _megabytes  # noqa: PLW0603  # one child, one state
    die_with(parent)
    # A service manager sends SIGTERM to every process of a service; the worker then finishes its jobs, and
    # needs its children. Not SIG_IGN, which the programs that the function starts would inherit.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("800")  # when the machine is full: me first
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    faulthandler.enable(file=2)
    faulthandler.register(signal.SIGXCPU, file=2, chain=True)
    _line, _megabytes, inside = line, megabytes, True
    _allowance = address_space() + megabytes * MEGABYTE
    _line.send_bytes(b"ready")


def die_with(parent: int) -> None:
    """Let the kernel kill this process when *parent* dies; where it cannot, look for it every second."""
    if LINUX:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    else:
        threading.Thread(target=watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it died before we had asked
        os._exit(1)


def watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


def perform(target: Target, arguments: bytes, seconds: float) -> Reply:
    """Run the function under its limits; whatever it does short of dying comes back as a Reply."""
    global _allowance  # noqa: PLW0603  # one child, one state
    try:
        before = address_space()
        function = locate(target)
        _allowance += max(0, address_space() - before)  # libraries are not the input's fault
        args, kwargs = pickle.loads(arguments)  # noqa: S301  # from our own parent
    except BaseException as error:  # noqa: BLE001  # a child that dies of it says less
        return Reply(kind="unprepared", body=encode(error), text=traceback.format_exc())
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak of this call, not of those before
    _line.send_bytes(b"begun")
    reply = attempt(function, args, kwargs, seconds)
    return replace(
        reply,
        peak_megabytes=memory("/proc/self/status", "VmHWM"),
        worn=reply.kind == "memory" or address_space() > _allowance - _megabytes * MEGABYTE // 4,
    )


def locate(target: Target) -> Callable[..., Any]:
    sys.path[:] = target.path
    if target.module == "__main__":
        spawn.prepare(target.main)
    from retoma.isolate.function import Isolated  # noqa: PLC0415  # which imports this module

    found = getattr(importlib.import_module(target.module), target.name)
    wrapper = inspect.unwrap(found, stop=lambda each: isinstance(each, Isolated))
    return wrapper.function if isinstance(wrapper, Isolated) else found


def attempt(function: Callable[..., Any], args: Any, kwargs: Any, seconds: float) -> Reply:
    """Call the function and say how it went."""
    returned = value = None
    used = time.process_time()
    reserve = bytearray(RESERVE_BYTES)
    # Processor time runs as many times faster as there are cores. The parent's clock decides; this
    # is for the day when the parent is frozen.
    limit(resource.RLIMIT_CPU, math.ceil(used + seconds * (os.cpu_count() or 1)) + 5)
    if LINUX:
        limit(resource.RLIMIT_AS, _allowance)
    try:
        try:
            value = function(*args, **kwargs)
            returned = True
            return Reply(kind="value", body=pickle.dumps(value))
        finally:
            del reserve  # lifting the limit takes memory, and there may be none left
            limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)
            limit(resource.RLIMIT_CPU, resource.RLIM_INFINITY)
    except MemoryError:
        return Reply(kind="memory", text=traceback.format_exc())
    except BaseException as error:  # noqa: BLE001  # SystemExit too: the parent decides what it means
        if returned:
            return Reply(kind="unsendable", text=f"{type(value).__qualname__}: {error}")
        return Reply(kind="error", body=encode(error), text=traceback.format_exc())


def encode(error: BaseException) -> bytes:
    """*error* as bytes that are known to come back; nothing when no way was found."""
    for form in (error, Rebuilt(error)):
        with suppress(Exception):
            body = pickle.dumps(form)
            pickle.loads(body)  # noqa: S301  # our own, to see whether it can
            return body
    return b""


class Rebuilt:
    """An error whose __init__ asks for more than its args; it is made again without calling it."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self._error), self._error.args, self._error.__dict__)


def rebuild(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


def limit(which: int, amount: int) -> None:
    """Set the soft limit; the hard one stays, for the next call may need more."""
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        amount = hard if amount == resource.RLIM_INFINITY else min(amount, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(which, (amount, hard))


def address_space() -> int:
    """Bytes of addresses in use, which is what RLIMIT_AS counts; 0 where the system does not tell."""
    return int((memory("/proc/self/status", "VmSize") or 0) * MEGABYTE)
