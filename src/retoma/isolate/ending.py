"""How a call in a child ended: its value, its error, or the cause of its death, in words."""

from __future__ import annotations

import pickle
import re
import signal
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pebble import ProcessFuture

from retoma.errors import (
    ConfigurationError,
    IsolatedCrash,
    IsolatedFailure,
    IsolatedMemory,
    IsolatedTimeout,
    Unstorable,
)
from retoma.isolate.child import Reply, Target

NO_MEMORY = re.compile(
    r"bad_alloc|memory allocation of \d+ bytes failed|out of memory|cannot allocate memory", re.IGNORECASE
)
UNHARMED = "The worker and the other calls are unharmed."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """One call, as it was asked."""

    target: Target
    arguments: bytes
    seconds: float
    megabytes: int
    future: Future[Any] = field(default_factory=ProcessFuture)  # unlike others, cancellable while it runs

    @property
    def name(self) -> str:
        return f"{self.target.module}.{self.target.name}"


@dataclass(slots=True, kw_only=True)
class Sighting:
    """What the parent saw of a call in its child."""

    deadline: float
    oom_kills: int
    ready: bool = False
    begun: bool = False
    overdue: bool = False
    exit_code: int | None = None
    peak_megabytes: float | None = None
    tail: str = ""

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
        """Whether the child gave up while it started, which the next would do as well."""
        return not self.ready and self.signal is None

    @property
    def starved(self) -> bool:
        """Whether it died for want of memory: by the kernel's hand, or by its own with a word about it."""
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


def value_of(call: Call, reply: Reply, tail: str) -> Any:
    """What the function returned; raises what it raised."""
    if reply.kind == "value":
        try:
            return pickle.loads(reply.body)  # noqa: S301  # from our own child, as everything pebble brings
        except Exception as error:
            raise unsendable(call, f"{type(error).__qualname__}: {error}") from error
    failure = failure_of(call, reply, tail)
    failure.add_note(f"In the child:\n{reply.text}")
    raise failure


def failure_of(call: Call, reply: Reply, tail: str) -> Exception:
    match reply.kind:
        case "unsendable":
            return unsendable(call, reply.text)
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
                next="Children see no secrets and no DATABASE_URL: keep isolated functions in a module that "
                "can be imported without them.",
            )
        case _:
            return raised(call, reply, tail)


def raised(call: Call, reply: Reply, tail: str) -> Exception:
    """The error of the function as itself, if it could travel and may be raised here."""
    with suppress(Exception):
        error = pickle.loads(reply.body)  # noqa: S301  # as above
        if isinstance(error, Exception) and not isinstance(error, StopIteration):  # futures refuse that one
            return error
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
            return IsolatedCrash(
                f"{call.name} left its child by sys.exit({error.code!r}).",
                next=f"{UNHARMED} Let the function return or raise instead.",
                exit_code=code,
                stderr_tail=tail,
            )
    return IsolatedFailure(
        f"{call.name} raised {last_line(reply.text)}.",
        next="The error itself could not be brought here; its traceback is in the notes.",
        stderr_tail=tail,
    )


def unsendable(call: Call, reason: str) -> Unstorable:
    return Unstorable(
        f"{call.name} returned a value that cannot leave its child: {reason}.",
        next="Return plain data: text, bytes, numbers, lists, dictionaries, dataclasses.",
    )


def explain(call: Call, seen: Sighting) -> Exception:
    """Why *call* never answered."""
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
    """How many processes the kernel has killed for want of memory; 0 where it does not tell."""
    with suppress(OSError):
        found = re.search(r"^oom_kill (\d+)", Path("/proc/vmstat").read_text(), re.MULTILINE)
        return int(found[1]) if found else 0
    return 0
