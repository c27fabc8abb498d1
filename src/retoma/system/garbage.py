"""Settings of the garbage collector: for a process that loads its program, and for one that lives long."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# New objects before a collection. With Python's 700, collections took a seventh of the time of an upload.
_NEW = 20_000


@contextmanager
def loading() -> Iterator[None]:
    """No collections meanwhile: what modules define stays, and looking through it again and again while it grows takes
    a tenth of the processor time of loading an executor, and a fifth of that of loading a server.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def settle_down() -> None:
    """Call this once everything is loaded, in a process that only serves or works: the collector ignores what exists,
    and checks the rest less often.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW, *gc.get_threshold()[1:])
