"""Letters that are read and answered. While ``held`` is in the folder CONSOLE_FOLDER, only the first three are
answered: the others wait before their second step.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from retoma import Retoma, Run, Settings, pipeline

FIRST = 3


@pipeline("letters")
async def letters(number: int, run: Run) -> int:
    read = await run.step("read", lambda: number)
    while number >= FIRST and Path(os.environ.get("CONSOLE_FOLDER", "/"), "held").exists():
        await asyncio.sleep(0.05)
    return await run.step("answer", lambda: read * 2)


def made(settings: Settings | None = None) -> Retoma:
    return Retoma(settings=settings, pipelines=[letters])


def __getattr__(name: str) -> Retoma:
    if name == "app":  # in a worker, not where the test itself runs
        return made()
    raise AttributeError(name)
