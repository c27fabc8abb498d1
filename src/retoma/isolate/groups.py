"""A small process beside this one, that outlives it and ends the programs which isolated functions have started.

The kernel ends a child with its parent, but not what the child has started. This process knows the group of every
child; when its pipe closes, because we are gone however that happened, it ends those groups.
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
    """Told of each group before anything can come of it; started with the first, and again if it was ended."""

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
        """It has ended, or was made to; its number may soon be another's."""
        with self._lock:
            self._groups.discard(group)
            self._say(f"-{group}\n")

    def forget_all(self) -> None:
        """In a process forked from ours: neither the groups nor the pipe are its own."""
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
        except OSError:  # somebody has ended it
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
                start_new_session=True,  # what is sent to our group or terminal is not for it
            )
        except OSError:  # no room for it now: then a crash of ours may leave something behind, and no more than that
            os.close(self._pipe)
            self._pipe = None
        else:
            started.returncode = 0  # nobody waits for it: it ends after us
        finally:
            os.close(read)
