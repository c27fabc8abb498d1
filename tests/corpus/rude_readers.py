"""Readers as bad as readers get, for the chain that must survive them; children find them by this module's name."""

import ctypes
import os
import signal
import time
from pathlib import Path

from retoma.providers import Extraction, Page
from retoma.providers.local.trail import Trail


def dies_on_page_3(_file: Path, trail: Trail) -> Extraction:
    trail.at("rude", 3)
    ctypes.string_at(0)
    raise AssertionError("unreachable")


def aborts(_file: Path, trail: Trail) -> Extraction:
    trail.at("ruder", 7)
    os.abort()


def dies_once(file: Path, trail: Trail) -> Extraction:
    """Dies unless it finds the mark that it left when it died."""
    trail.at("fickle", 1)
    mark = file.with_suffix(".seen")
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return Extraction(pages=(Page(number=1, text="lido na segunda vez"),), reader="fickle")


def hangs_on_page_5(_file: Path, trail: Trail) -> Extraction:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    trail.at("slow", 5)
    while True:
        time.sleep(1)


def eats(_file: Path, trail: Trail) -> Extraction:
    trail.at("hungry", 2)
    return Extraction(pages=(Page(number=1, text="x" * 3_000_000_000),), reader="hungry")
