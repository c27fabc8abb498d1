"""Stops the embedded server when its last user has gone: python -m retoma.embedded_watch HOME."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from retoma.embedded_home import ALONE, Home, halt, opened, take


def watch(path: Path, grace: float = 2.0) -> None:
    """Wait until nobody has used the server of *path* for *grace* seconds, and stop it."""
    home = Home.at(path)
    try:
        watching = take(home.watch_lock, ALONE, time.monotonic() + 5)
    except TimeoutError:
        return
    # Opened once: should the folder be deleted and made anew, its new server is not ours to stop.
    users, start, server = opened(home.users_lock), opened(home.start_lock), opened(home.server_lock)
    while True:
        users.wait_as(ALONE)
        users.loosen()
        time.sleep(grace)
        start.wait_as(ALONE)
        if users.try_as(ALONE):
            if not server.is_at(home.server_lock) or halt(home, seconds=60):
                # Before the start lock, which the end of this process lets go: whoever starts the
                # server next must see that nobody watches it any more.
                watching.let_go()
                return
            users.loosen()
        start.loosen()


if __name__ == "__main__":
    watch(Path(sys.argv[1]))
