"""How the console draws figures: bars, by the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse

from retoma.web.console.render import console_page
from retoma.web.console.speaking import spanner


def age(at: datetime | None) -> float | None:
    """Seconds since *at*."""
    return None if at is None else max(0.0, (datetime.now(UTC) - at).total_seconds())


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a chart: where it stands and how high each of its parts is, in hundredths of the chart."""

    name: str
    label: str
    x: float
    width: float
    parts: list[tuple[str, float, float]]
    """Tone, top and height of each part, from the bottom up."""


def bars(rows: Sequence[tuple[str, str, Sequence[tuple[str, float]]]]) -> list[Bar]:
    """A chart of *rows*: name, label that is read aloud, and the parts with their tones."""
    highest = max((sum(value for _, value in parts) for _, _, parts in rows), default=0.0) or 1.0
    step = 100 / max(len(rows), 1)
    drawn = []
    for place, (name, label, parts) in enumerate(rows):
        top, heights = 100.0, []
        for tone, value in parts:
            height = 100 * value / highest
            if height > 0:
                top -= height
                heights.append((tone, top, height))
        drawn.append(Bar(name, label, place * step + step * 0.12, step * 0.76, heights))
    return drawn


def machine_page(request: Request, name: str, *, current: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page about the machine, with what its templates share."""
    shared = {"span": spanner(request), "age": age, "now": datetime.now(UTC)}
    return console_page(request, name, current=current, status=status, **{**shared, **values})
