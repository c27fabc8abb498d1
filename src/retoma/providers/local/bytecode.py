"""Writes the bytecode of the readers once, in a process that reads no documents: children may not write it, and would
compile every import again.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from retoma.isolate.policy import environment_of

_LOADED_LATER = {"retoma.providers.local.readers.ocr": "rapidocr"}
"""What a reader imports only on demand."""

_seen: set[str] = set()


async def compile_once(place: str) -> None:
    """Write it for the reader at *place*, unless it exists; checked once in each process."""
    if place not in _seen:
        _seen.add(place)
        await asyncio.to_thread(_compile, place.partition(":")[0])


def _compile(module: str) -> None:
    try:
        found = importlib.util.find_spec(module)
    except ImportError:  # reported when it is read
        return
    if sys.dont_write_bytecode or found is None or found.cached is None or Path(found.cached).exists():
        return
    names = [each for each in (module, _LOADED_LATER.get(module)) if each]
    program = f"import importlib, sys; sys.path[:] = {sys.path}; [importlib.import_module(each) for each in {names}]"
    subprocess.run(
        [sys.executable, "-c", program],
        env=environment_of(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
