"""Where a reader is and since when, kept in a file: when the reader is killed, its last page is still known."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retoma.scratch import named

_WIDTH = 256
_BEGAN, _MARK = 0, _WIDTH


@dataclass(frozen=True, slots=True)
class Trail:
    """Of one call: written by the child that reads, read by its parent."""

    file: str

    def begin(self) -> None:
        """Say that the work begins; the wait for a free child was not work."""
        self._write(_BEGAN, time.monotonic())  # which all processes of a machine share

    def at(self, reader: str, page: int | None = None) -> None:
        """Say who is reading now, and which page."""
        self._write(_MARK, [reader, page])

    @property
    def seconds(self) -> float:
        """How long the work has been going on."""
        began = self._read(_BEGAN)
        return 0.0 if began is None else max(0.0, time.monotonic() - began)

    @property
    def last(self) -> tuple[str | None, int | None]:
        """Who read last, and which page; nothing when nobody had begun."""
        reader, page = self._read(_MARK) or (None, None)
        return reader, page

    def _write(self, place: int, value: object) -> None:
        # One write of one width: whenever the child dies, the mark is the old one or the new one.
        descriptor = os.open(self.file, os.O_WRONLY)
        try:
            os.pwrite(descriptor, json.dumps(value).encode().ljust(_WIDTH), place)
        finally:
            os.close(descriptor)

    def _read(self, place: int) -> Any:
        mark = Path(self.file).read_bytes()[place : place + _WIDTH].strip(b"\0 ")
        return json.loads(mark) if mark else None


@contextmanager
def trail() -> Iterator[Trail]:
    """A trail that is swept away at the end."""
    with named() as file:
        yield Trail(file.name)
