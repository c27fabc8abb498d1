"""The code inside the child of an isolated function: it sandboxes itself first, then runs calls and sends replies."""

from __future__ import annotations

import base64
import dataclasses
import faulthandler
import importlib
import inspect
import json
import math
import os
import pickle
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from retoma.errors import Unstorable
from retoma.isolate import channel, kernel
from retoma.isolate.layers import REQUIRED
from retoma.isolate.raised import Told, tell
from retoma.isolate.sandbox import MEGABYTE, Letter, limit, shut_in
from retoma.values.annotations import return_annotation

RESERVE_BYTES = 4_000_000
SPARE_BYTES = 64 * MEGABYTE
"""What a child may use above its limit after the function has ended, to report how."""
VALUE_BYTES = 128 * MEGABYTE
_TEXT = 16_000
_PLAIN = (str, int, bool, bytes, type(None))


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """A placeholder for a file among the arguments: the child has the file in a folder of its own."""

    number: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The report of a child on a call that did not kill it."""

    kind: Literal["value", "error", "exit", "memory", "unsendable", "unprepared", "unconfined"]
    number: str = ""
    """The number of the call, as the parent gave it."""
    text: str = ""
    error: Told | None = None
    code: int | None = None
    """The code with which the function wanted to exit."""
    peak_megabytes: float | None = None
    worn: bool = False
    """The child kept so much memory that the next call would have less than a quarter of its limit."""


inside = False
"""Whether this process is a child: an isolated function that calls another one runs it in the same process."""

_out = -1
_saying = threading.Lock()


def main(reads: int, writes: int) -> None:
    """Run as a child: read the configuration, enter the sandbox, and answer calls until the parent closes the pipe."""
    global inside, _out  # noqa: PLW0603  # one child, one state
    _out = writes
    letter = Letter(**json.loads(_next(reads, channel.LETTER)))
    missing = begin(letter)
    inside = True
    sys.path[:] = letter.path
    say(channel.READY, json.dumps(missing).encode())
    gauge = Gauge(letter.megabytes)
    while True:
        call = json.loads(_next(reads, channel.CALL))
        arguments = _next(reads, channel.ARGUMENTS)
        if letter.sandbox == "require" and (lacking := sorted(set(missing) & set(REQUIRED))):
            reasons = ", ".join(f"{each} ({missing[each]})" for each in lacking)
            reply = Reply(kind="unconfined", text=reasons)
        else:
            reply = perform(letter, gauge, call, arguments)
        say(channel.REPLY, json.dumps(dataclasses.asdict(reply) | {"number": call["number"]}).encode())


def say(kind: bytes, body: bytes = b"") -> None:
    with _saying:
        channel.send(_out, kind, body)


def note(value: Any) -> None:
    """Tell the parent where the function is, in a few words; the parent knows it even when the child dies. Outside a
    child this does nothing.
    """
    if inside:
        say(channel.NOTE, json.dumps(value).encode()[: channel.NOTE_BYTES])


def _next(reads: int, wanted: bytes) -> bytes:
    found = channel.receive(reads)
    if found is None:
        os._exit(0)
    assert found[0] == wanted
    return found[1]


def begin(letter: Letter) -> dict[str, str]:
    """Sandbox this process before it has seen any input; returns the layers that could not be set up."""
    die_with(letter.parent)
    # A service manager sends SIGTERM to every process of a service; the worker then finishes its jobs, and needs its
    # children. Not SIG_IGN, which programs started by the function would inherit.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("800")  # when memory runs out, the kernel kills this process first
    faulthandler.enable(file=2)
    faulthandler.register(signal.SIGXCPU, file=2, chain=True)
    Gauge.open()
    if letter.sandbox == "off" or not kernel.LINUX:
        limit(resource.RLIMIT_CORE, 0)
        why = "switched off" if letter.sandbox == "off" else "only Linux has it"
        missing = {str(each): why for each in REQUIRED}
    else:
        missing = shut_in(letter)
    die_with(letter.parent)  # the kernel resets it when the user changes
    return missing


def die_with(parent: int) -> None:
    """Let the kernel kill this process when *parent* dies; where it cannot, check for the parent every second."""
    if kernel.LINUX:
        kernel.signal_at_parents_death(signal.SIGKILL)
    elif threading.active_count() == 1:
        threading.Thread(target=watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it died before the call above
        os._exit(1)


def watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


class Gauge:
    """How much memory this process uses and may use. Its files are opened at the start, because
    later none can be opened.
    """

    _status = _refs = -1

    def __init__(self, megabytes: int) -> None:
        self._megabytes = megabytes
        self._allowance = self.addresses() + megabytes * MEGABYTE

    @classmethod
    def open(cls) -> None:
        with suppress(OSError):
            cls._status = os.open("/proc/self/status", os.O_RDONLY)
            cls._refs = os.open("/proc/self/clear_refs", os.O_WRONLY)

    def read(self, field: bytes) -> float | None:
        """A line of the status file, in MB; 0 where the system does not provide it."""
        with suppress(OSError, ValueError, IndexError):
            found = os.pread(self._status, 8_192, 0)
            return int(found.split(b"\n" + field + b":", 1)[1].split(None, 1)[0]) / 1_024
        return None

    def addresses(self) -> int:
        """Bytes of address space in use, as RLIMIT_AS counts them; 0 where the system does not provide it."""
        return int((self.read(b"VmSize") or 0) * MEGABYTE)

    def forgive(self, addresses: int) -> None:
        """Add what libraries take to the limit, because the input did not cause it."""
        self._allowance += max(0, addresses)

    def forget_peak(self) -> None:
        with suppress(OSError):
            os.write(self._refs, b"5")

    def limit(self) -> None:
        if kernel.LINUX:
            limit(resource.RLIMIT_AS, self._allowance, hard=self._allowance + SPARE_BYTES)

    @property
    def worn(self) -> bool:
        return self.addresses() > self._allowance - self._megabytes * MEGABYTE // 4


def perform(letter: Letter, gauge: Gauge, call: dict[str, Any], arguments: bytes) -> Reply:
    """Run the function under its limits; everything short of the death of the process comes back as a Reply."""
    try:
        before = gauge.addresses()
        function = locate(letter, call["name"])
        annotation = return_annotation(function)
        gauge.forgive(gauge.addresses() - before)
        files = [letter.given / each for each in call["files"]]
        args, kwargs = pickle.loads(arguments)  # noqa: S301  # from our own parent
        args = [_found(each, files) for each in args]
        kwargs = {name: _found(each, files) for name, each in kwargs.items()}
    except BaseException as error:  # noqa: BLE001  # a child that dies of it says less
        return Reply(kind="unprepared", error=tell(error), text=told())
    gauge.forget_peak()  # measure the peak of this call only
    say(channel.BEGUN, call["number"].encode())
    reply = attempt(gauge, function, annotation, args, kwargs, call["seconds"])
    return dataclasses.replace(reply, peak_megabytes=gauge.read(b"VmHWM"), worn=reply.kind == "memory" or gauge.worn)


def _found(argument: Any, files: list[Path]) -> Any:
    return files[argument.number] if isinstance(argument, Given) else argument


def locate(letter: Letter, name: str) -> Callable[..., Any]:
    if letter.module == "__main__" and "__mp_main__" not in sys.modules:
        from multiprocessing import spawn  # noqa: PLC0415  # for scripts alone

        spawn.prepare(letter.main)
    found: Callable[..., Any] = getattr(importlib.import_module(letter.module), name)
    # The function can only be wrapped if the module of the wrapper is loaded.
    if wrapping := sys.modules.get("retoma.isolate.function"):
        wrapper = inspect.unwrap(found, stop=lambda each: isinstance(each, wrapping.Isolated))
        found = wrapper.function if isinstance(wrapper, wrapping.Isolated) else found
    return found


def attempt(
    gauge: Gauge, function: Callable[..., Any], annotation: Any, args: Any, kwargs: Any, seconds: float
) -> Reply:
    """Call the function and report the result; its value is sent before the reply."""
    returned = False
    used = time.process_time()
    reserve = bytearray(RESERVE_BYTES)
    # Processor time counts for all cores together. The parent's clock decides; this limit is for a frozen parent.
    limit(resource.RLIMIT_CPU, math.ceil(used + seconds * (os.cpu_count() or 1)) + 5)
    gauge.limit()
    try:
        try:
            value = function(*args, **kwargs)
            returned = True
            body = encoded(value, annotation)
        finally:
            del reserve  # lifting the limit needs memory, and none may be left
            limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)
            limit(resource.RLIMIT_CPU, resource.RLIM_INFINITY)
        say(channel.VALUE, body)
        return Reply(kind="value")
    except MemoryError:
        return Reply(kind="memory", text=told())
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        return Reply(kind="exit", code=code, text=repr(error.code)[:200])
    except BaseException as error:  # noqa: BLE001  # the parent decides what it means
        if returned:
            return Reply(kind="unsendable", text=error.message if isinstance(error, Unstorable) else repr(error)[:500])
        return Reply(kind="error", error=tell(error), text=told())


def encoded(value: Any, annotation: Any) -> bytes:
    """*value* as JSON from which its annotation restores it."""
    if type(value) is annotation and (dataclasses.is_dataclass(annotation) or annotation in _PLAIN):
        # Most readers return plain values; the codec, which handles the rest, takes a quarter of a second to load.
        with suppress(TypeError, ValueError):  # not plain inside: NaN, a lone surrogate, a date
            return _sized(json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False).encode())
    from retoma.values.codec import codec_of  # noqa: PLC0415  # as said

    found = codec_of(annotation).encode(value, what="what it returned", limit=VALUE_BYTES)
    return found.text.encode()


def _sized(body: bytes) -> bytes:
    if len(body) > VALUE_BYTES:
        raise Unstorable(f"It takes {len(body):,} bytes, and {VALUE_BYTES:,} is the limit.")
    return body


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).decode()
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    raise TypeError


def told() -> str:
    """The traceback of the current exception, or its end if it is long."""
    return traceback.format_exc()[-_TEXT:]
