"""Launches the child of an isolated function with its pipes and its folder, and nothing else of ours."""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from functools import cache
from itertools import count
from pathlib import Path

from retoma.isolate import kernel, places
from retoma.isolate.channel import LETTER, Line
from retoma.isolate.groups import Groups
from retoma.isolate.kernel import LINUX
from retoma.isolate.layers import Layer
from retoma.isolate.policy import Policy, environment_of
from retoma.isolate.sandbox import Letter
from retoma.system import tempfiles

TAIL_BYTES = 2_048
NOBODY = 65_534
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from retoma.isolate.child import main; "
    "main(int(sys.argv[2]), int(sys.argv[3]))"
)
_ROOT = str(Path(__file__).parents[2])

groups = Groups()


class Child:
    """A child process, with its channel, its folder, its log and its peak memory."""

    def __init__(self, letter: Letter, policy: Policy, *, most: int) -> None:
        """Raises OSError when the machine cannot start another process now. *letter* has no folder yet."""
        with ExitStack() as undo:
            self._folder = Folder(user_for(letter, policy))
            undo.callback(self._folder.close)
            self.log = unlinked_file()
            undo.callback(os.close, self.log)
            reads, child_writes = os.pipe()
            child_reads, writes = os.pipe()
            ends = ExitStack()
            for each in (child_reads, child_writes):
                ends.callback(os.close, each)
            self.line = Line(reads, writes, most=most)
            undo.callback(self.line.close)
            # Linux passes the peak memory of the launching process on to the program: up to this value, it is ours.
            self._inherited_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            self.peak_megabytes: float | None = None
            self._exitcode: int | None = None
            with ends:
                self._launch(policy, child_reads, child_writes)
            undo.pop_all()
        told = asdict(letter) | {"folder": str(self._folder.path), "user": self._folder.user}
        self.line.say(LETTER, json.dumps(told).encode())

    def _launch(self, policy: Policy, reads: int, writes: int) -> None:
        off = policy.sandbox == "off"
        if not off and Layer.PARENT not in policy.without:
            kernel.hide()
        environment = environment_of(
            os.environ, more=policy.environment, folder=None if off else str(self._folder.path / "work")
        )
        if off:
            environment |= {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
        if Layer.ENVIRONMENT in policy.without:
            environment = {**os.environ, **environment}
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
        started = subprocess.Popen(
            [sys.executable, *flags, "-c", _PROGRAM, _ROOT, str(reads), str(writes)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            pass_fds=(reads, writes),
            process_group=0,  # so that what the child starts can be killed with it
        )
        self.pid = started.pid
        groups.watch(self.pid)
        started.returncode = 0  # exitcode() waits for it; subprocess must not collect the exit status

    def give(self, files: Sequence[Path]) -> list[str]:
        """Make *files* readable in the child's folder; returns their names there."""
        return self._folder.give(files)

    def take_back(self) -> None:
        """Remove the files that it was given."""
        self._folder.take_back()

    @property
    def exitcode(self) -> int | None:
        """How it ended; None while it runs."""
        return self._wait(os.WNOHANG)

    def kill(self) -> None:
        """Kill it at once with everything it has started: native code would not react to a gentler signal."""
        if self._exitcode is None:
            self._end_group()
            self._wait(0)

    def close(self) -> None:
        """Kill it if it still runs, and remove everything it left."""
        self.kill()
        self.line.close()
        os.close(self.log)
        self._folder.close()

    def _wait(self, flag: int) -> int | None:
        if self._exitcode is None:
            try:
                self._exitcode = self._taken(flag)
            except ChildProcessError:  # other code in this process has collected the exit status
                self._exitcode = 1
        return self._exitcode

    def _taken(self, flag: int) -> int | None:
        # Peek first: until the exit status is collected its pid is not reused, and everything that it started can be
        # killed with its group. (Python 3.11 cannot peek on macOS.)
        if LINUX and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | flag) is None:
            return None
        if LINUX:
            self._end_group()
        pid, status, usage = os.wait4(self.pid, flag)
        if pid != self.pid:
            return None
        if usage.ru_maxrss > self._inherited_peak:
            self.peak_megabytes = usage.ru_maxrss / (1_024 if LINUX else 1_048_576)
        if not LINUX:
            self._end_group()
        groups.forget(self.pid)
        return os.waitstatus_to_exitcode(status)

    def _end_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def sample(self) -> float | None:
        """The peak memory so far in MB, while the child runs and where the system provides it."""
        with suppress(OSError):
            found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE)
            return int(found[1]) / 1_024 if found else None
        return None

    def tail(self) -> str:
        """The last output of the child, on stdout and stderr."""
        size = os.fstat(self.log).st_size
        said = os.pread(self.log, 8 * TAIL_BYTES, max(0, size - 8 * TAIL_BYTES)).decode(errors="replace")
        # faulthandler ends with a list of every native module, which alone can fill the tail.
        return re.sub(r"^Extension modules: .*\n?", "", said, flags=re.MULTILINE)[-TAIL_BYTES:]

    def forget_log(self, *, above: int = 0) -> None:
        """Empty the log when it holds more than *above* bytes."""
        if os.fstat(self.log).st_size > above:
            os.ftruncate(self.log, 0)


class Folder:
    """The folder of a child: it may write to *work*, and read the files of a call in *given*."""

    def __init__(self, user: int | None) -> None:
        self.user = user
        with ExitStack() as stack:
            self.path = stack.enter_context(tempfiles.folder())
            for name in ("work", "given"):
                (self.path / name).mkdir(0o700)
            if user is not None:
                # The child's user may pass and read, but only through its group: the files are not for everybody.
                os.chown(self.path / "work", user, user)
                for each, mode in ((self.path, 0o710), (self.path / "given", 0o750)):
                    os.chown(each, -1, user)
                    each.chmod(mode)
            # By descriptor: whatever the child puts in place of the folder, we write into this one.
            self._given = os.open(self.path / "given", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, self._given)
            self._stack = stack.pop_all()
        self._names: list[str] = []
        # Every file gets a place of its own: one that could not be removed is in nobody's way.
        self._places = count()

    def give(self, files: Sequence[Path]) -> list[str]:
        try:
            return [self._give(file) for file in files]
        except BaseException:
            self.take_back()
            raise

    def _give(self, file: Path) -> str:
        place = str(next(self._places))
        os.mkdir(place, 0o750, dir_fd=self._given)
        self._names.append(place)
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._given)
        try:
            self._put(file, folder)
        finally:
            os.close(folder)
        return f"{place}/{file.name}"

    def _put(self, file: Path, folder: int) -> None:
        if self.user is None:
            # A hard link to the same file, which Landlock lets the child read and not write.
            with suppress(OSError):  # another file system, another owner: make a copy
                os.link(file.resolve(), file.name, dst_dir_fd=folder)
                return
        else:
            os.fchown(folder, -1, self.user)
        made = os.open(file.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640, dir_fd=folder)
        with file.open("rb") as source, os.fdopen(made, "wb") as copy:
            if self.user is not None:
                os.fchown(made, -1, self.user)
            shutil.copyfileobj(source, copy, 1_048_576)

    def take_back(self) -> None:
        for place in self._names:
            shutil.rmtree(place, ignore_errors=True, dir_fd=self._given)
        self._names.clear()

    def close(self) -> None:
        self._stack.close()


def user_for(letter: Letter, policy: Policy) -> int | None:
    """The user that the child of a root process becomes: nobody, if that user can read Python and the modules here."""
    if not LINUX or os.geteuid() != 0 or policy.sandbox == "off" or Layer.PRIVILEGES in policy.without:
        return None
    return NOBODY if _open_to_nobody(letter.path) and places.open_to_others([Path(tempfile.gettempdir())]) else None


@cache
def _open_to_nobody(path: tuple[str, ...]) -> bool:
    return places.open_to_others(
        [Path(sys.executable), *(Path(sys.base_prefix, each) for each in ("bin", "lib"))]
    ) and (places.open_to_others(map(Path, (_ROOT, *path))))


def unlinked_file() -> int:
    """A descriptor of a file without a name: nothing stays behind, whichever process is killed."""
    descriptor, name = tempfile.mkstemp(prefix="retoma-child-")
    Path(name).unlink()
    # Append, so that truncating it from here does not leave a hole before the child's next line.
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)
    return descriptor
