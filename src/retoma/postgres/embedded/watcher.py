"""Stops the embedded server when its last user has gone: python -m retoma.postgres.embedded.watcher HOME LOCK."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from retoma.postgres.embedded.home import ALONE, Home, Lock, halt, opened


def watch(path: Path, watching: Lock, grace: float = 2.0) -> None:
    """Wait until nobody has used the server of *path* for *grace* seconds, and stop it."""
    home = Home.at(path)
    try:
        # Opened once and never created: if the folder is deleted, even if it is created again, nothing
        # there is ours to stop.
        locks = (home.users_lock, home.start_lock, home.server_lock)
        users, start, server = (opened(each, create=False) for each in locks)
    except FileNotFoundError:
        return
    while True:
        users.wait_as(ALONE)
        users.loosen()
        time.sleep(grace)
        start.wait_as(ALONE)
        if users.try_as(ALONE):
            if not server.is_at(home.server_lock) or halt(home, seconds=60):
                # Before the start lock, which the end of this process releases: the next process that starts the server
                # must see that it has no watcher.
                watching.let_go()
                return
            users.loosen()
        start.loosen()


if __name__ == "__main__":
    watch(Path(sys.argv[1]), Lock(int(sys.argv[2])))
