"""Acquires locks on tables that are in use: short waits, pauses for other work, retries, and a
report of the blockers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg

from retoma.errors import SchemaBusy
from retoma.model.health import Holder
from retoma.postgres.database import fetch_sync, jitter
from retoma.store import health
from retoma.store.migrations import LOCK_SECONDS

T = TypeVar("T")
Tell = Callable[[str], None]

TRIES = 20
"""About two minutes, when each attempt has to wait."""

_BUSY = (pg.LockNotAvailable, pg.DeadlockDetected)
_LOOK_SECONDS = 0.25
_LOOKS_THAT_ARE_LONG = int(1.5 * LOCK_SECONDS / _LOOK_SECONDS)


class LockRetry:
    """Retries what needs a lock. A connection of its own, *looking*, reports meanwhile who holds it."""

    def __init__(self, looking: psycopg.Connection[Any], *, tries: int, tell: Tell) -> None:
        self._looking = looking
        self._tries = tries
        self._tell = tell
        self._seen: list[Holder] = []

    def __call__(self, do: Callable[[], T], *, pid: int, what: str) -> T:
        """The result of *do*, which waits for locks in session *pid* and changes nothing when it gets none."""
        for tried in range(1, self._tries + 1):
            self._seen = []
            try:
                with self._watching(pid, what):
                    return do()
            except _BUSY:
                if tried < self._tries:
                    self._tell(f"{what} waits: {_described(self._seen)} (try {tried} of {self._tries}).")
                    # Pause for as long as others waited behind us, so that at least half of the time is theirs.
                    time.sleep(LOCK_SECONDS + jitter(tried))
        times = "once" if self._tries == 1 else f"{self._tries} times"
        raise SchemaBusy(
            f"{what} was tried {times} and did not happen: {_described(self._seen)}.", next=_advice(self._seen)
        )

    @contextmanager
    def _watching(self, pid: int, what: str) -> Iterator[None]:
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(pid, what, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _watch(self, pid: int, what: str, over: threading.Event) -> None:
        looks = 0
        while not over.wait(_LOOK_SECONDS):
            with suppress(psycopg.Error):  # the report is optional, and the work does not depend on it
                found = fetch_sync(self._looking, health.holders(pid))
                self._seen = found or self._seen
                looks = looks + 1 if found else 0
            if looks == _LOOKS_THAT_ARE_LONG:  # only work that blocks nobody may wait this long
                self._tell(f"{what} waits: {_described(self._seen)}.")


def _described(seen: Sequence[Holder]) -> str:
    if not seen:
        return "somebody holds a lock that it needs"
    return f"{seen[0].what} is held by {', '.join(map(_session, seen))}"


def _session(holder: Holder) -> str:
    if not holder.pid:
        return "a prepared transaction"
    lasts = holder.state or ""
    if holder.seconds is not None:
        lasts += f" for {holder.seconds:.0f} s"
    known = ", ".join(filter(None, [holder.name, lasts.strip()]))
    return f"pid {holder.pid} ({known})" if known else f"pid {holder.pid}"


def _advice(seen: Sequence[Holder]) -> str:
    pids = [holder.pid for holder in seen if holder.pid]
    if not pids:
        return "Look at pg_locks and pg_prepared_xacts for who that is, then give the same command again."
    ends = ", ".join(f"pg_terminate_backend({pid})" for pid in pids)
    return f"Wait until that has ended, or end it with: select {ends}; then give the same command again."
