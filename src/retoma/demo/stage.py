"""The stage of the demo: a folder, a PostgreSQL in it, and workers that are processes like any other."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from retoma import Retoma, RetomaError, Settings, embedded
from retoma.demo.diary import VARIABLE, Diary
from retoma.demo.program import prepare
from retoma.embedded_home import ALONE, Home, opened

LEASE = 4.0
HEARTBEAT = 1.0
EXECUTORS = 2
AT_ONCE = 4
PROGRAM = "retoma.demo.program:app"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where one run of the demo takes place."""

    folder: Path
    home: Path
    diary: Diary
    run: str = field(default_factory=lambda: uuid4().hex[:8])

    @property
    def queue(self) -> str:
        """A queue of its own, so that two demos in one home do not work for each other."""
        return f"demo-{self.run}"

    @property
    def environment(self) -> dict[str, str]:
        """What the workers are told: this database, and a short lease, so that nobody has to wait for a minute."""
        ours = ("RETOMA_", "JOB_", "PG", "DATABASE_URL", "WORKER_ID")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return kept | {
            "RETOMA_HOME": str(self.home),
            "RETOMA_LEASE_SECONDS": str(LEASE),
            "RETOMA_HEARTBEAT_SECONDS": str(HEARTBEAT),
            "RETOMA_SWEEP_SECONDS": "0.5",
            "RETOMA_LOG_LEVEL": "warning",
            VARIABLE: str(self.diary.path),
        }

    def log(self, label: str) -> Path:
        return self.folder / f"worker-{label}.log"

    async def app(self) -> Retoma:
        """An open app on the stage's database; the table of the demo is there."""
        home = Settings(home=self.home)
        # Whatever DATABASE_URL says: nobody's server is filled with a demo.
        app = Retoma(settings=home.model_copy(update={"database_url": None}))
        await app.open()
        await prepare(app)
        return app


@contextmanager
def staged() -> Iterator[Stage]:
    """A stage that is cleared afterwards. The database stays only when RETOMA_HOME says where."""
    folder = Path(tempfile.mkdtemp(prefix="retoma-demo-"))
    folder.chmod(0o755)  # as root, the server has another account, which must be able to pass through
    given = os.environ.get("RETOMA_HOME")
    home = Path(given) if given else folder / "home"
    try:
        yield Stage(folder, home, Diary(str(folder / "diary.jsonl")))
    finally:
        if not given:
            with suppress(RetomaError, OSError):
                embedded.stop(home)
                _wait_for_the_watcher(home)
                embedded.remove(home)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_the_watcher(home: Path, seconds: float = 10.0) -> None:
    """The process that would have stopped the server sees for itself that there is none; leave after it."""
    deadline = time.monotonic() + seconds
    with opened(Home.at(home).watch_lock) as lock:
        while not lock.try_as(ALONE) and time.monotonic() < deadline:
            time.sleep(0.05)


class Worker:
    """A worker, started as anybody would start it: by its command."""

    def __init__(self, stage: Stage, label: str) -> None:
        self.label = label
        self._stage = stage
        command = ["worker", "--app", PROGRAM, "--queues", stage.queue, "--id", f"{label}-{stage.run}"]
        command += ["--processes", str(EXECUTORS), "--at-once", str(AT_ONCE)]
        with stage.log(label).open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "retoma", *command],
                env=stage.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the demo, which then ends its workers itself.
                start_new_session=True,
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

    @property
    def name(self) -> str:
        """What the database calls it."""
        return f"{self.label}-{self._stage.run}"

    def ended(self) -> bool:
        return self._process.poll() is not None

    def last_words(self) -> str:
        return self._stage.log(self.label).read_text(errors="replace")[-2000:]

    def kill(self) -> None:
        """End the supervisor and whatever it has started with signal 9; nobody gets to say goodbye."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def drain(self, seconds: float) -> int:
        """Ask it to stop; its exit code."""
        self._process.terminate()
        return self._process.wait(timeout=seconds)
