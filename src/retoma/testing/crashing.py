"""Kills a real worker with -9 in the middle of its work."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from typing import IO, Any

import orjson

from retoma.app.loader import find_app
from retoma.app.retoma import Retoma
from retoma.errors import ConfigurationError, RetomaError
from retoma.store import ageing
from retoma.system.settings import Settings
from retoma.worker.loader import reference_to

_LOOK = 0.01
_LONGEST_STATEMENT = 30.0


async def crash(
    app: Retoma,
    *,
    after: int = 0,
    steps: int = 0,
    processes: int = 1,
    at_once: int | None = None,
    reference: str | None = None,
    timeout: float = 60.0,
) -> int:
    """Start a real worker and kill it with -9 once *after* jobs have ended and *steps* steps were saved.

    Its executors die with it, and their jobs stay *running* under their lease: see ``age`` and ``drain``. They find
    the app by *reference* (module:attribute or file:attribute), or by the module that holds it. Returns how many
    jobs have ended, once the database has ended every statement of the dead worker.
    """
    if after < 1 and steps < 1:
        raise ConfigurationError("crash() needs after= or steps=.", next="Say after=… jobs or steps=… checkpoints.")
    orders: dict[str, Any] = {
        "reference": reference or reference_to(app),
        "settings": app.settings.model_dump(mode="json", exclude={"database_url"}),
        "processes": processes,
        "at_once": at_once,
    }
    async with app:
        orders["settings"]["database_url"] = app.database.url
        before = (await app.fetch(ageing.tally()))[0]
        with tempfile.TemporaryFile() as said:
            worker = _start_worker(orders, said)
            try:
                async with asyncio.timeout(timeout):
                    while True:
                        now = (await app.fetch(ageing.tally()))[0]
                        if now.ended - before.ended >= after and now.saved - before.saved >= steps:
                            break
                        _still_hope(worker, now, said)
                        await asyncio.sleep(_LOOK)
            finally:
                # The whole process group at once, executors and their children included.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
        await _statements_end(app)
        return (await app.fetch(ageing.tally()))[0].ended - before.ended


def _start_worker(orders: dict[str, Any], said: IO[bytes]) -> subprocess.Popen[bytes]:
    worker = subprocess.Popen(
        [sys.executable, "-c", "from retoma.testing.crashing import work_until_killed; work_until_killed()"],
        stdin=subprocess.PIPE,
        stdout=said,
        stderr=said,
        start_new_session=True,
    )
    assert worker.stdin is not None
    # On its standard input, because the database URL contains a password and others can read a command line.
    with worker.stdin as control:
        control.write(orjson.dumps(orders))
    return worker


async def _statements_end(app: Retoma) -> None:
    """Wait for the statements that run now: the server ends those of a killed client too, and may commit them."""
    begun = await app.fetch(ageing.statements())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST_STATEMENT):
            while begun:
                await asyncio.sleep(_LOOK)
                now = await app.fetch(ageing.statements())
                begun = [each for each in begun if each in now]


def _still_hope(worker: subprocess.Popen[bytes], tally: ageing.Tally, said: IO[bytes]) -> None:
    if worker.poll() is None and tally.left:
        return
    said.seek(0)
    words = said.read()[-2000:].decode(errors="replace").strip()
    if worker.poll() is not None:
        raise RetomaError(f"The worker that was to be killed ended by itself: {words or worker.returncode}.")
    raise RetomaError(
        f"All jobs ended before the worker could be killed: {tally.ended} in all, {tally.saved} steps.",
        next="Enqueue more, or crash earlier.",
    )


def work_until_killed() -> None:
    """The process that ``crash`` starts and kills: a worker with the orders from standard input."""
    orders = orjson.loads(sys.stdin.buffer.read())
    try:
        app = find_app(orders["reference"])
        app.registry.settings = Settings.load(**orders["settings"])
        worker = app.worker(processes=orders["processes"], at_once=orders["at_once"], reference=orders["reference"])
        asyncio.run(worker.run())
    except RetomaError as error:
        sys.exit(str(error))
