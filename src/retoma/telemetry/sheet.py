"""The figures of one process, in memory that outlives it.

An executor counts on a sheet that its supervisor opened, and the next executor in its place goes on with the same
sheet: nothing is lost or reset when a process dies, not even by a kill, and no message has to arrive. A figure is one
aligned double, so a reader never sees half of one. (Attempts that began are counted with the next that end, or a second
later: a kill can take this second.) A record is: the length of its key, the number of its cells, the
key, the cells. The first double of the sheet says how far it is written, and grows after the record is whole.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import orjson

from retoma.telemetry.catalogue import BY_NAME

_CELL = struct.Struct("<d")
_HEAD = struct.Struct("<II")
_SIZE = 1 << 20  # bytes; pages that are never written use no memory
_LONGEST = 120  # characters of a label
OTHER = "other"
"""The label of what is beyond the number of label sets that a metric may have."""

Key = tuple[str, ...]
"""The name of a metric, then the values of its labels."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One series: a single cell, or the cells of a histogram (each bucket, the rest, and the sum)."""

    name: str
    labels: Key
    cells: tuple[float, ...]


class Sheet:
    """Counters, gauges and histograms of one process. One process writes a sheet at a time; others may read it."""

    def __init__(self, file: int | None = None) -> None:
        """On the file that another process opened, or on a new one."""
        if file is None:
            with tempfile.TemporaryFile() as unnamed:
                file = os.dup(unnamed.fileno())
            os.ftruncate(file, _SIZE)
        self.file = file
        self._memory = mmap.mmap(file, _SIZE)
        self._cells = memoryview(self._memory).cast("d")
        self._lock = threading.Lock()
        self.counted = False
        """Whether this process counts its events here."""
        self.settle: Callable[[], None] = lambda: None
        """Counts what this process has noted and not counted yet."""
        self._places: dict[Key, int] = {}
        self._kinds: dict[str, int] = {}
        self._read_places()

    def close(self) -> None:
        with self._lock:
            self._cells.release()
            self._memory.close()
            os.close(self.file)

    # — writing —

    def add(self, key: Key, amount: float = 1.0) -> None:
        """Add to a counter."""
        with self._lock:
            place = self._places.get(key) or self._place(key)
            if place:
                self._cells[place >> 3] += amount

    def set(self, key: Key, value: float) -> None:
        """Set a gauge."""
        with self._lock:
            place = self._places.get(key) or self._place(key)
            if place:
                self._cells[place >> 3] = value

    def observe(self, key: Key, value: float) -> None:
        """Add one observation to a histogram."""
        self.observe_all(key, (value,))

    def observe_all(self, key: Key, values: Sequence[float]) -> None:
        """Add observations to a histogram: with many of them, to find their buckets is all that each one costs."""
        buckets = BY_NAME[key[0]].buckets
        found = Counter([bisect_left(buckets, value) for value in values]) if len(values) > 1 else None
        with self._lock:
            place = self._places.get(key) or self._place(key)
            if place:
                cells, first = self._cells, place >> 3
                if found is None:
                    for value in values:
                        cells[first + bisect_left(buckets, value)] += 1
                else:
                    for bucket, number in found.items():
                        cells[first + bucket] += number
                cells[first + len(buckets) + 1] += sum(values)

    def clear_gauges(self) -> None:
        """Set every gauge to zero: the process that told them has ended."""
        with self._lock:
            for key, place in self._places.items():
                if BY_NAME[key[0]].kind == "gauge":
                    self._cells[place >> 3] = 0.0

    def _place(self, key: Key) -> int:
        """Where the cells of *key* are; new ones are written behind the others. Beyond the limit of a metric, and when
        the sheet is full, everything counts as *other*. 0 when there is no room even for that.
        """
        metric = BY_NAME[key[0]]
        kept = (key[0], *(str(label)[:_LONGEST] for label in key[1:]))
        if len(kept) != len(metric.labels) + 1:
            raise ValueError(f"{key[0]} has the labels {metric.labels}, not {key[1:]}")
        if kept in self._places:
            return self._places[kept]
        if self._kinds.get(metric.name, 0) >= metric.most:
            kept = (metric.name, *(OTHER for _ in metric.labels))
            if kept in self._places:
                return self._places[kept]
        cells = len(metric.buckets) + 2 if metric.buckets else 1
        name = orjson.dumps(kept)
        at = self._used()
        first = -(-(at + _HEAD.size + len(name)) // 8) * 8
        if first + 8 * cells > _SIZE:
            return self._places.get((metric.name, *(OTHER for _ in metric.labels)), 0)
        _HEAD.pack_into(self._memory, at, len(name), cells)
        self._memory[at + _HEAD.size : at + _HEAD.size + len(name)] = name
        self._memory[first : first + 8 * cells] = bytes(8 * cells)
        _CELL.pack_into(self._memory, 0, float(first + 8 * cells))
        self._note(kept, first)
        return first

    def _note(self, key: Key, place: int) -> None:
        self._places[key] = place
        self._kinds[key[0]] = self._kinds.get(key[0], 0) + 1

    # — reading —

    def figures(self) -> list[Figure]:
        """Every series as it is now, those of the writing process included."""
        self.settle()
        with self._lock:
            return [
                Figure(key[0], key[1:], struct.unpack_from(f"<{cells}d", self._memory, place))
                for key, place, cells in self._records()
            ]

    def _used(self) -> int:
        return int(_CELL.unpack_from(self._memory, 0)[0]) or _CELL.size

    def _records(self) -> Iterator[tuple[Key, int, int]]:
        at, used = _CELL.size, self._used()
        while at < used:
            length, cells = _HEAD.unpack_from(self._memory, at)
            name = self._memory[at + _HEAD.size : at + _HEAD.size + length]
            first = -(-(at + _HEAD.size + length) // 8) * 8
            yield tuple(orjson.loads(name)), first, cells
            at = first + 8 * cells

    def _read_places(self) -> None:
        for key, place, _ in self._records():
            if key[0] in BY_NAME:
                self._note(key, place)


def added(sheets: Sequence[Sheet]) -> list[Figure]:
    """The sum of several sheets, series by series."""
    total: dict[Key, list[float]] = {}
    for sheet in sheets:
        for each in sheet.figures():
            before = total.setdefault((each.name, *each.labels), [0.0] * len(each.cells))
            for place, cell in enumerate(each.cells):
                # Two processes have two heartbeats, and the last of them is the one that counts.
                last = each.name.endswith("_timestamp_seconds")
                before[place] = max(before[place], cell) if last else before[place] + cell
    return [Figure(key[0], key[1:], tuple(cells)) for key, cells in sorted(total.items())]
