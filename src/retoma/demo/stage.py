"""The stage of the demo: a folder, a PostgreSQL in it, and workers that are processes like any other."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from retoma import Retoma, RetomaError, Settings
from retoma.demo.diary import Diary
from retoma.demo.program import VARIABLE, Switches
from retoma.isolate import kernel
from retoma.postgres.embedded import server as embedded_server
from retoma.postgres.embedded.home import ALONE, Home, opened
from retoma.providers.factory import providers_from

LEASE = 4.0
HEARTBEAT = 1.0
WATCHDOG = 0.5
AT_ONCE = 3
PROGRAM = "retoma.demo.program:app"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where one run of the demo takes place: everything is in one folder."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def documents(self) -> Path:
        return self.folder / "documents"

    @property
    def diary(self) -> Diary:
        return Diary(self.folder / "diary.jsonl")

    @property
    def switches(self) -> Switches:
        return Switches(self.folder)

    @property
    def settings(self) -> Settings:
        """Whatever DATABASE_URL says: nobody's server is filled with a demo."""
        return Settings(home=self.home).model_copy(update={"database_url": None})

    @property
    def environment(self) -> dict[str, str]:
        """What the workers are told: this database, and a short lease, so that nobody has to wait for a minute."""
        ours = ("RETOMA_", "JOB_", "PG", "DATABASE_URL", "WORKER_ID")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return kept | {
            "RETOMA_HOME": str(self.home),
            "RETOMA_LEASE_SECONDS": str(LEASE),
            "RETOMA_HEARTBEAT_SECONDS": str(HEARTBEAT),
            "RETOMA_SWEEP_SECONDS": str(WATCHDOG),
            "RETOMA_WATCHDOG_SECONDS": str(WATCHDOG),
            "RETOMA_LOG_LEVEL": "warning",
            VARIABLE: str(self.folder),
            # Whoever is killed cannot tidy up: what it leaves is in the folder, and goes with it.
            "TMPDIR": str(self.folder / "tmp"),
        }

    def log(self, label: str) -> Path:
        return self.folder / f"{label}.log"

    def app(self) -> Retoma:
        """An app on the stage's database that runs nothing itself."""
        return Retoma(settings=self.settings, providers=providers_from({"RETOMA_HOME": str(self.home)}))


@contextmanager
def staged(*, keep: bool = False) -> Iterator[Stage]:
    """A stage that is cleared afterwards; one that is to be kept is only stopped."""
    folder = Path(tempfile.mkdtemp(prefix="retoma-demo-"))
    folder.chmod(0o755)  # as root, the server has another account, which must be able to pass through
    stage = Stage(folder.resolve())
    (stage.folder / "tmp").mkdir()
    try:
        yield stage
    finally:
        with suppress(RetomaError, OSError):
            embedded_server.stop(stage.home)
            _wait_for_the_watcher(stage.home)
            if not keep:
                embedded_server.remove(stage.home)
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _wait_for_the_watcher(home: Path, seconds: float = 10.0) -> None:
    """The process that would have stopped the server sees for itself that there is none; leave after it."""
    deadline = time.monotonic() + seconds
    with opened(Home.at(home).watch_lock) as lock:
        while not lock.try_as(ALONE) and time.monotonic() < deadline:
            time.sleep(0.05)


def _die_with(demo: int) -> None:
    """Have the kernel end this worker when the demo ends, also when the demo is killed and can end nobody."""
    if kernel.LINUX:
        kernel.signal_at_parents_death(signal.SIGKILL)
    if os.getppid() != demo:
        os._exit(1)


class Worker:
    """A worker, started as anybody would start it: by its command."""

    def __init__(
        self,
        stage: Stage,
        label: str,
        *,
        program: str = PROGRAM,
        at_once: int = AT_ONCE,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.label = label
        self._stage = stage
        command = ["worker", "--app", program, "--id", label, "--processes", "1", "--at-once", str(at_once)]
        with stage.log(label).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "retoma", *command],
                env={**stage.environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the demo, which then ends its workers itself.
                start_new_session=True,
                preexec_fn=functools.partial(_die_with, os.getpid()),  # noqa: PLW1509 - it makes system calls only
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self) -> bool:
        return self._process.poll() is not None

    def last_words(self) -> str:
        return self._stage.log(self.label).read_text(errors="replace")[-2000:]

    def kill(self) -> None:
        """End the supervisor and whatever it has started with signal 9; nobody gets to say goodbye."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def drain(self) -> None:
        """Ask it to stop."""
        self._process.terminate()

    def wait(self, seconds: float) -> int:
        """Its exit code, once it has."""
        return self._process.wait(timeout=seconds)
