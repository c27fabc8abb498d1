"""Exports or imports a session, and stops for ever at the place it is told: python books_mover.py export ID DIR 3."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from pathlib import Path
from typing import Any

from books_app import app

from retoma.pipelines.books import checkpoints, transfer
from retoma.pipelines.books.library import Books

WAY, SESSION, PLACE, STOP = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])

_times = itertools.count(1)


def count() -> None:
    """Stop at the so-manieth time."""
    if next(_times) == STOP:
        sys.stdout.write("here\n")
        sys.stdout.flush()
        while True:
            time.sleep(3600)


_replace, _save = Path.replace, checkpoints.save


def replace(path: Path, target: Path) -> Path:
    """Before the name, and after it: a file has a part, a name, and only then a folder that knows it."""
    count()
    moved = _replace(path, target)
    count()
    return moved


def save(*args: Any, **more: Any) -> Any:
    count()
    return _save(*args, **more)


async def main() -> None:
    async with app:
        if WAY == "export":
            Path.replace = replace  # type: ignore[method-assign,assignment]
            await transfer.export(Books(app), SESSION, PLACE)
        else:
            checkpoints.save = save
            await transfer.import_folder(Books(app), PLACE)


asyncio.run(main())
