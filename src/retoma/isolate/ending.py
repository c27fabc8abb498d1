"""How a call in a child ended: its value, its error, or the cause of the child's death."""

from __future__ import annotations

import json
import re
import signal
import time
from concurrent.futures import CancelledError, Future, InvalidStateError  # its executors break when a child dies
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from retoma.errors import (
    ConfigurationError,
    IsolatedCrash,
    IsolatedFailure,
    IsolatedMemory,
    IsolatedTimeout,
    Unstorable,
)
from retoma.isolate.channel import Garbled
from retoma.isolate.child import Reply
from retoma.isolate.raised import rebuild
from retoma.values.codec import Codec, Misfit, codec_of

NO_MEMORY = re.compile(
    r"bad_alloc|memory allocation of \d+ bytes failed|out of memory|cannot allocate memory", re.IGNORECASE
)
UNHARMED = "The worker and the other calls are unharmed."
SHUT_IN = (
    "A child opens only files that are given to it as a pathlib.Path, and writes only into its own folder "
    "(tempfile finds it). RETOMA_SANDBOX_READ names further places that it may read."
)
_REPLY = codec_of(Reply)


VALUES = 4_000_000
"""How many values one answer may contain; each takes about a hundred bytes here."""

KEYS = 500_000
"""How many dictionary keys; each invalid one takes about a kilobyte to report."""


class Wait(Future[Any]):
    """A future that can be abandoned even while its call runs."""

    given_up = False

    def cancel(self) -> bool:
        if super().cancel():
            return True
        with suppress(InvalidStateError):
            self.set_exception(CancelledError())
            self.given_up = True
        return self.given_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a child finds the function: by name, because the module's attribute is the wrapper."""

    module: str
    name: str
    main: dict[str, str]
    """How to load the main module, when the function is defined there."""
    path: tuple[str, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """One call: its arguments, and its progress."""

    target: Target
    codec: Codec[Any]
    arguments: bytes
    files: tuple[Path, ...]
    seconds: float
    megabytes: int
    alone: bool = False
    future: Wait = field(default_factory=Wait)
    last: bytes = b""
    began: float | None = None
    ended: float | None = None

    @property
    def name(self) -> str:
        return f"{self.target.module}.{self.target.name}"

    @property
    def note(self) -> Any:
        """The last note of the function as the child sent it: not yet validated."""
        with suppress(ValueError, RecursionError):
            return json.loads(self.last)
        return None

    @property
    def worked(self) -> float:
        """For how many seconds the function has run, or ran."""
        return 0.0 if self.began is None else (self.ended or time.monotonic()) - self.began


@dataclass(slots=True, kw_only=True)
class Sighting:
    """What the parent observed of a call in its child."""

    deadline: float
    oom_kills: int
    ready: bool = False
    begun: bool = False
    overdue: bool = False
    exit_code: int | None = None
    peak_megabytes: float | None = None
    tail: str = ""
    number: str = ""
    """The number of the call, which only this child was told."""
    notes: int = 0
    value: bytes | None = None

    @property
    def signal(self) -> int | None:
        return -self.exit_code if self.exit_code is not None and self.exit_code < 0 else None

    @property
    def died(self) -> str:
        if self.signal is None:
            return f"exit code {self.exit_code}"
        return f"signal {self.signal} ({signal_name(self.signal)})"

    @property
    def unable(self) -> bool:
        """Whether the child failed during its start, as the next one would."""
        return not self.ready and self.signal is None

    @property
    def starved(self) -> bool:
        """Whether it died for lack of memory: killed by the kernel, or ended by itself with a message about it."""
        if self.signal == signal.SIGKILL:
            return oom_kills() > self.oom_kills
        return self.signal is not None and NO_MEMORY.search(self.tail) is not None

    @property
    def evidence(self) -> dict[str, Any]:
        return {
            "signal": self.signal,
            "exit_code": self.exit_code,
            "peak_megabytes": self.peak_megabytes,
            "stderr_tail": self.tail,
        }


def read_reply(body: bytes) -> Reply:
    """The reply that a child sent; raises Garbled when it is invalid."""
    try:
        reply: Reply = _REPLY.decode(body.decode(), untrusted=True)
    except (Misfit, UnicodeDecodeError) as error:
        raise Garbled("a reply of another shape") from error
    return reply


def decoded(call: Call, value: bytes | None) -> Any:
    """The value that its annotation decodes from what the child sent; raises Garbled when it is invalid."""
    if value is None:
        raise Garbled("a value that did not come")
    if value.count(b",") + value.count(b"[") + value.count(b"{") > VALUES:
        raise Garbled(f"more than {VALUES:,} values")
    if value.count(b'":') > KEYS:
        raise Garbled(f"more than {KEYS:,} keys")
    try:
        return call.codec.decode(value.decode(), untrusted=True)
    except Misfit as misfit:
        raise Garbled(f"a value that its annotation does not allow ({misfit})") from misfit
    except UnicodeDecodeError as error:
        raise Garbled("bytes that are no text") from error


def garbled(call: Call, what: object, tail: str) -> IsolatedFailure:
    return IsolatedFailure(
        f"The child of {call.name} answered with {what}; the answer was not read.",
        next=f"{UNHARMED} Return what the annotation says. If it does, what it has read may have taken it over.",
        stderr_tail=tail,
    )


def failure_of(call: Call, reply: Reply, tail: str) -> Exception:
    """The error to raise for a call without a value, with what the child reported."""
    failure = _failure_of(call, reply, tail)
    failure.add_note(f"In the child:\n{reply.text}")
    if isinstance(failure, PermissionError):
        failure.add_note(SHUT_IN)
    return failure


def _failure_of(call: Call, reply: Reply, tail: str) -> Exception:
    match reply.kind:
        case "unsendable":
            return unsendable(call, reply.text.removeprefix("Cannot save what it returned: ").removesuffix("."))
        case "memory":
            used = peak(reply.peak_megabytes)
            return IsolatedMemory(
                f"{call.name} asked for more memory than its {call.megabytes} MB{used}.",
                next=f"{UNHARMED} Raise megabytes= in its @isolated if the input deserves it.",
                peak_megabytes=reply.peak_megabytes,
                stderr_tail=tail,
            )
        case "unprepared":
            return ConfigurationError(
                f"A child could not load {call.name}: {last_line(reply.text)}.",
                next="Children see no secrets, no DATABASE_URL and no files but modules: keep isolated functions in a "
                "module that can be imported without them. RETOMA_SANDBOX_READ names further places to read.",
            )
        case "unconfined":
            return ConfigurationError(
                f"A child for {call.name} could not be shut in: {reply.text}. RETOMA_SANDBOX=require asks for it.",
                next="'retoma doctor' says what this machine lacks; RETOMA_SANDBOX=auto does without.",
            )
        case "exit":
            return IsolatedCrash(
                f"{call.name} left its child by sys.exit({reply.text}).",
                next=f"{UNHARMED} Let the function return or raise instead.",
                exit_code=reply.code,
                stderr_tail=tail,
            )
        case _:
            return raised(call, reply, tail)


def raised(call: Call, reply: Reply, tail: str) -> Exception:
    """The error of the function itself, if it could be sent and may be raised here."""
    error = rebuild(reply.error) if reply.error is not None else None
    return error or IsolatedFailure(
        f"{call.name} raised {last_line(reply.text)}.",
        next="The error itself could not be brought here; its traceback is in the notes.",
        stderr_tail=tail,
    )


def unsendable(call: Call, reason: str) -> Unstorable:
    return Unstorable(
        f"{call.name} returned a value that cannot leave its child: {reason}.",
        next="Return plain data (text, bytes, numbers, lists, dictionaries, dataclasses), and annotate the function "
        "with what it returns: it travels as JSON.",
    )


def explain(call: Call, seen: Sighting) -> Exception:
    """Why *call* was never answered."""
    used = peak(seen.peak_megabytes)
    if seen.overdue and not seen.begun:
        what = f"The child of {call.name} was not ready when its time to load had passed, and was killed."
        return IsolatedTimeout(what, next="Is the machine overloaded, or an import waiting?", **seen.evidence)
    if seen.overdue or seen.signal == signal.SIGXCPU:
        return IsolatedTimeout(
            f"{call.name} was still running after its {call.seconds:g} s and was killed{used}.",
            next=f"{UNHARMED} Raise seconds= in its @isolated if such inputs are honest work.",
            **seen.evidence,
        )
    if seen.unable:
        said = last_line(seen.tail) or "without a word"
        unstarted = ConfigurationError(f"No child could be started for {call.name}: {seen.died}, {said}.")
        unstarted.add_note(f"In the child:\n{seen.tail}")
        return unstarted
    if seen.starved:
        return IsolatedMemory(
            f"{call.name} ran out of memory and died by {seen.died}{used}; it may use {call.megabytes} MB.",
            next=f"{UNHARMED} Raise megabytes= in its @isolated, or run fewer children at once.",
            **seen.evidence,
        )
    return IsolatedCrash(
        f"{call.name} died in its child by {seen.died}{used}.",
        next=f"{UNHARMED} The last words of the child are in stderr_tail.",
        **seen.evidence,
    )


def peak(megabytes: float | None) -> str:
    return "" if megabytes is None else f", at {megabytes:.0f} MB"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no name
        return "unnamed"


def last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2].rstrip(".")


def oom_kills() -> int:
    """How many processes the kernel has killed for lack of memory; 0 where it does not report that."""
    with suppress(OSError):
        found = re.search(r"^oom_kill (\d+)", Path("/proc/vmstat").read_text(), re.MULTILINE)
        return int(found[1]) if found else 0
    return 0
