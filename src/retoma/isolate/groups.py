"""A small process that outlives this one and ends the programs that isolated functions have started.

The kernel ends a child with its parent, but not what the child has started. This process knows the process group of
every child. When its pipe closes, because we have ended for whatever reason, it kills those groups.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress

_PROGRAM = """
import os, signal
for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(each, signal.SIG_IGN)
groups, rest = set(), b""
while piece := os.read(0, 65536):
    *lines, rest = (rest + piece).split(b"\\n")
    for line in lines:
        (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class Groups:
    """The process groups of children, each registered before its child can start anything. The helper process starts
    with the first group, and again if it was killed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._pipe: int | None = None

    def watch(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            if not self._say(f"+{group}\n"):
                self._start()
                self._say("".join(f"+{each}\n" for each in self._groups))

    def forget(self, group: int) -> None:
        """The group has ended; its number may soon be reused."""
        with self._lock:
            self._groups.discard(group)
            self._say(f"-{group}\n")

    def forget_all(self) -> None:
        """In a forked process: neither the groups nor the pipe belong to it."""
        self._lock = threading.Lock()
        self._groups.clear()
        if self._pipe is not None:
            with suppress(OSError):
                os.close(self._pipe)
            self._pipe = None

    def _say(self, words: str) -> bool:
        if self._pipe is None:
            return False
        try:
            os.write(self._pipe, words.encode())
        except OSError:  # the helper process was killed
            os.close(self._pipe)
            self._pipe = None
            return False
        return True

    def _start(self) -> None:
        read, self._pipe = os.pipe()
        try:
            started = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM],
                stdin=read,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,  # signals to our group or terminal do not reach it
            )
        except OSError:  # no resources for it now: a crash of ours may then leave programs behind
            os.close(self._pipe)
            self._pipe = None
        else:
            started.returncode = 0  # nothing waits for it: it ends after us
        finally:
            os.close(read)
