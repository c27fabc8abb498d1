"""Real workers as processes of the operating system: started, looked at, killed, frozen, and always cleared away."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil
from nursery import begin

HERE = Path(__file__).parent
T = TypeVar("T")

QUICK = {
    "RETOMA_LEASE_SECONDS": "3",
    "RETOMA_HEARTBEAT_SECONDS": "0.5",
    "RETOMA_SWEEP_SECONDS": "0.5",
    "RETOMA_POLL_SECONDS": "0.25",
    "RETOMA_GRACE_SECONDS": "0.5",
    "RETOMA_DRAIN_SECONDS": "10",
    "RETOMA_CONNECT_TIMEOUT": "1",
    "RETOMA_LOG_FORMAT": "json",
}
LEASE = 3.0


def lives(process: psutil.Process) -> bool:
    """Whether it is more than an entry that its parent has yet to read."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until(look: Callable[[], T], *, seconds: float = 240.0, what: str = "") -> T:
    """What *look* gives, once it gives something; the seconds are when to give up, not a measure."""
    end = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"It did not happen within {seconds:g} s: {what or look}")
        await asyncio.sleep(0.05)
    return found


def _short(line: str) -> str:
    """A line of a log without what every line of it says, so that a failed test can be read as a whole."""
    try:
        said = json.loads(line)
        hour = said.pop("at").partition("T")[2]
        every = {"level", "workerLabel", "jobType", "queue"}
        known = {name: value for name, value in said.items() if name not in every}
    except (ValueError, AttributeError, KeyError, TypeError):  # not a line of our log
        return line[:300]
    return " ".join([hour, str(known.pop("event", "")), *(f"{name}={value}" for name, value in known.items())])[:300]


def _executes(process: psutil.Process) -> bool:
    return process.name() == "executor" or "retoma.worker.executor_main" in " ".join(process.cmdline())


class Member:
    """One worker: a supervisor and its executors, in a process group of their own."""

    def __init__(
        self, label: str, words: Sequence[str], environment: dict[str, str], log: Path, *, forked: bool = True
    ) -> None:
        self.label = label
        self.log = log
        with log.open("ab") as said:
            self._popen = begin(words, environment=environment, folder=HERE, log=said, forked=forked)
        self.pid = self._popen.pid
        self._seen: dict[int, psutil.Process] = {}

    def executors(self) -> list[int]:
        """The living executors, youngest last; [] once the supervisor has gone."""
        found = []
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children():
                with suppress(psutil.NoSuchProcess):
                    if lives(child) and _executes(child):
                        found.append((child.create_time(), child))
        for _, child in found:
            self._seen[child.pid] = child
        return [child.pid for _, child in sorted(found, key=lambda each: each[0])]

    async def ready(self, count: int = 1) -> list[int]:
        """Its executors, once there are *count*."""
        what = f"{self.label} has {count} executors"
        await until(lambda: len(self.executors()) >= count or self.ended, what=what)
        return self.executors()

    @property
    def ended(self) -> bool:
        return self._popen.poll() is not None

    async def exit_code(self, seconds: float = 240.0) -> int:
        await until(lambda: self.ended, seconds=seconds, what=f"{self.label} ends")
        return self._popen.wait()

    def send(self, number: int, *, executors: bool = False, supervisor: bool = True) -> None:
        """A signal to its processes; those that are gone already are not missed."""
        pids = self.executors() if executors else []
        for pid in pids + ([self.pid] if supervisor and not self.ended else []):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def wake(self) -> None:
        """Let go on whatever was frozen of it."""
        for process in self._seen.values():
            with suppress(psutil.NoSuchProcess):  # psutil makes sure that the number is still the same process
                process.resume()
        if not self.ended:
            os.kill(self.pid, signal.SIGCONT)

    def words(self) -> str:
        return self.log.read_text(errors="replace")

    def events(self, name: str) -> list[dict[str, Any]]:
        """What it said of one kind of event."""
        found = []
        for line in self.words().splitlines():
            with suppress(ValueError):
                said = json.loads(line)
                if isinstance(said, dict) and said.get("event") == name:
                    found.append(said)
        return found

    def processor_seconds(self) -> float:
        """What it has used so far, all of its processes together."""
        used = 0.0
        for pid in (self.pid, *self.executors()):
            with suppress(psutil.NoSuchProcess):
                times = psutil.Process(pid).cpu_times()
                used += times.user + times.system
        return used

    def clear_away(self) -> None:
        """End it and all that came of it, whatever state they are in."""
        left = list(self._seen.values())
        with suppress(psutil.NoSuchProcess):
            left += psutil.Process(self.pid).children(recursive=True)
        if not self.ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self._popen.wait()
        for process in left:
            with suppress(psutil.NoSuchProcess):  # it checks that the number is still the same process
                process.kill()
        end = time.monotonic() + 60
        while alive := [process.pid for process in left if lives(process)]:
            assert time.monotonic() < end, f"{self.label} left processes behind: {alive}"
            time.sleep(0.02)


class Fleet:
    """Workers over one database, whose effects go to one file."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.file = folder / "effects.log"
        self.file.touch()
        self.members: list[Member] = []

    def start(
        self,
        label: str,
        *,
        app: str = "crash_app:app",
        queues: Sequence[str] = (),
        processes: int = 1,
        at_once: int = 10,
        url: str | None = None,
        forked: bool = True,
        **settings: object,
    ) -> Member:
        """A worker in the background; *settings* are RETOMA_ names in small letters. For *forked* see `nursery`."""
        environment = self.environment() | {f"RETOMA_{name.upper()}": str(value) for name, value in settings.items()}
        environment |= {"DATABASE_URL": url or self.url}
        words = ["-m", "retoma", "worker", "--app", app, "--id", label]
        words += ["--processes", str(processes), "--at-once", str(at_once)]
        words += ["--queues", ",".join(queues)] if queues else []
        return self._join(label, words, environment, forked=forked)

    def call(self, label: str, program: str, *words: object) -> Member:
        """Another program of this folder in the background; what it says is in its log."""
        command = [str(HERE / program), *map(str, words)]
        return self._join(label, command, self.environment() | {"DATABASE_URL": self.url})

    def run(self, label: str, variables: dict[str, str], *words: str) -> Member:
        """The command line in the background, with *variables* in its environment."""
        command, environment = ["-m", "retoma", *words], self.environment() | {"DATABASE_URL": self.url} | variables
        # Another path may lead to another version of what the nursery has imported.
        return self._join(label, command, environment, forked="PYTHONPATH" not in variables)

    def _join(self, label: str, words: Sequence[str], environment: dict[str, str], *, forked: bool = True) -> Member:
        others = {name: value for name, value in os.environ.items() if not name.startswith("RETOMA_")}
        member = Member(
            label,
            words,
            others | {"RETOMA_TOKEN": "off"} | environment,
            self.folder / f"{label}-{len(self.members)}.log",
            forked=forked,
        )
        self.members.append(member)
        return member

    def environment(self) -> dict[str, str]:
        """What the processes of a worker must be told."""
        path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        return QUICK | {"CRASH_FILE": str(self.file), "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}

    def clear_away(self) -> None:
        for member in self.members:
            member.clear_away()

    def tell(self) -> None:
        """The last words of everybody; pytest shows them when the test fails."""
        for member in self.members:
            lines = member.words().splitlines()
            last = [_short(line) for line in lines[-12:]]
            print(f"— {member.label} ({member.log.name}), {len(lines)} lines —", *last, sep="\n")  # noqa: T201
