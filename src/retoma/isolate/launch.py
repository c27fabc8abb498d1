"""How the child of an isolated function is launched: with its pipes, and nothing else of ours."""

from __future__ import annotations

import fcntl
import io
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import get_context, popen_spawn_posix, reduction, spawn, util
from multiprocessing.context import SpawnProcess, set_spawning_popen
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

LINUX = sys.platform == "linux"
TAIL_BYTES = 2_048

SECRET_NAME = re.compile(
    r"^(PG|RETOMA_)|DATABASE_URL|PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|CONNECTION_STRING|DSN$"
    r"|TOKENS?(_|$)|(^|_)(API)?KEYS?(_|$)",
    re.IGNORECASE,
)
SECRET_VALUE = re.compile(r"://[^/@\s]*:[^/@\s]+@")  # an address with a password in it


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What of *environment* a child may see: no database, no settings of ours, nothing like a secret."""
    kept = {
        name: value
        for name, value in environment.items()
        if not SECRET_NAME.search(name) and not SECRET_VALUE.search(value)
    }
    # The memory limit counts reserved addresses: each malloc arena reserves 64 MB and each
    # BLAS thread more, so that a machine with many cores would use up the limit on nothing.
    for name in ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        kept.setdefault(name, "1")
    kept.setdefault("MALLOC_ARENA_MAX", "2")
    return kept


class CleanPopen(popen_spawn_posix.Popen):
    """Spawns as multiprocessing does, with nothing of ours but the pipes it was given.

    Reimplemented because multiprocessing has no place to say which environment the child starts with;
    scrubbing it later would leave the original readable in /proc/self/environ.
    """

    def _launch(self, process_obj: BaseProcess) -> None:
        letter = self._letter(process_obj)
        self.log = unlinked_file()
        # Linux hands the memory peak of the launching process on to the program: up to this, it is ours.
        self._inherited_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.peak_megabytes: float | None = None
        parent_reads, child_writes = os.pipe()
        child_reads, parent_writes = os.pipe()
        self.sentinel = parent_reads
        self.finalizer = util.Finalize(self, close_all, (parent_reads, parent_writes, self.log))
        try:
            started = subprocess.Popen(
                # No resource tracker: the locks of Launcher are none, so there is nothing to track.
                spawn.get_command_line(tracker_fd=None, pipe_handle=child_reads),
                env=clean_environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=self.log,
                pass_fds=(*self._fds, child_reads, child_writes),  # type: ignore[attr-defined]  # not in typeshed
                process_group=0,  # so that what the child starts can be killed with it
            )
        finally:
            os.close(child_reads)
            os.close(child_writes)
        self.pid = started.pid
        started.returncode = 0  # we wait for it in poll(); subprocess must not take the exit status away
        # A child that is dead already will be found so by whoever waits for it.
        with suppress(BrokenPipeError), open(parent_writes, "wb", closefd=False) as pipe:
            pipe.write(letter)

    def _letter(self, process_obj: BaseProcess) -> bytes:
        """What the new interpreter must know before it can begin."""
        facts = spawn.get_preparation_data(process_obj.name)
        # The main module is loaded only for a function that lives there (locate), not the whole
        # worker for every parser; and a command line may hold a password.
        facts = {key: value for key, value in facts.items() if not key.startswith("init_main")}
        facts["sys_argv"] = sys.argv[:1]
        letter = io.BytesIO()
        set_spawning_popen(self)
        try:
            reduction.dump(facts, letter)
            reduction.dump(process_obj, letter)
        finally:
            set_spawning_popen(None)
        return letter.getvalue()

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        if self.returncode is None:
            try:
                pid, status, usage = os.wait4(self.pid, flag)
            except OSError:  # another thread is just taking it
                return None
            if pid == self.pid:
                if usage.ru_maxrss > self._inherited_peak:
                    self.peak_megabytes = usage.ru_maxrss / (1_024 if LINUX else 1_048_576)
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def _send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def tail(self) -> str:
        """The last words of the child, on stdout and stderr."""
        size = os.fstat(self.log).st_size
        said = os.pread(self.log, 8 * TAIL_BYTES, max(0, size - 8 * TAIL_BYTES)).decode(errors="replace")
        # faulthandler ends with every native module by name, which alone can fill the tail.
        return re.sub(r"^Extension modules: .*\n?", "", said, flags=re.MULTILINE)[-TAIL_BYTES:]

    def forget(self, *, above: int = 0) -> None:
        """Empty the log when it holds more than *above* bytes."""
        if os.fstat(self.log).st_size > above:
            os.ftruncate(self.log, 0)


def unlinked_file() -> int:
    """A descriptor of a file without a name: nothing stays behind, whoever is killed."""
    descriptor, name = tempfile.mkstemp(prefix="retoma-child-")
    Path(name).unlink()
    # Append, so that emptying it from here does not leave a hole before the child's next line.
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)
    return descriptor


def close_all(*descriptors: int) -> None:
    for each in descriptors:
        os.close(each)


class Child(SpawnProcess):
    """A child, with its log and its peak of memory."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> CleanPopen:  # noqa: N802  # multiprocessing's word
        return CleanPopen(process_obj)

    @property
    def launched(self) -> CleanPopen:
        popen: CleanPopen = self._popen  # type: ignore[attr-defined]  # not in typeshed
        return popen

    def terminate(self) -> None:
        """Kill at once: there is nothing to say goodbye to, and native code would not listen."""
        self.kill()

    def sample(self) -> float | None:
        """The peak of memory so far in MB, while the child lives and where the system tells."""
        return memory(f"/proc/{self.pid}/status", "VmHWM")


class NoLock:
    """The lock of a channel that has one child: there is nobody to lock out, and none can die holding it."""

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:  # noqa: ARG002
        return True

    def release(self) -> None: ...


class Launcher:
    """What pebble asks of a multiprocessing context; launches one child and never a second."""

    def __init__(self) -> None:
        self._spawn = get_context("spawn")
        self.Pipe = self._spawn.Pipe
        self.get_start_method = self._spawn.get_start_method
        self.child: Child | None = None

    def RLock(self) -> NoLock:  # noqa: N802  # pebble's word
        return NoLock()

    def Process(self, **options: Any) -> Child:  # noqa: N802  # pebble's word
        if self.child is not None:
            # To pebble: this pool is broken. Ours: a pool that lost its child is not used again.
            raise OSError("the child of this pool has died")
        self.child = Child(**options)
        return self.child


def memory(path: str, field: str) -> float | None:
    """A line of a /proc status file, in MB."""
    with suppress(OSError):
        found = re.search(rf"^{field}:\s+(\d+) kB", Path(path).read_text(), re.MULTILINE)
        return int(found[1]) / 1_024 if found else None
    return None
