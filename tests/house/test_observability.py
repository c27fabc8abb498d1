"""Every event has a metric, and the page for operators lists the metrics that there are, and no others."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from retoma.telemetry import events
from retoma.telemetry.catalogue import BY_NAME, METRICS
from retoma.telemetry.metrics import READINGS, measure
from retoma.telemetry.sheet import Sheet

PAGE = Path(__file__).parents[2] / "docs/operate/observe.md"
SOURCE = Path(__file__).parents[2] / "src/retoma"
ROOTS = (events.Event, events.JobEvent, events.CallEvent)
EVENTS = [
    each
    for each in vars(events).values()
    if isinstance(each, type) and issubclass(each, events.Event) and each not in ROOTS
]
SAMPLES: dict[str, Any] = {"int": 1, "float": 1.0, "str": "x", "bool": True, "tuple[float, ...]": (1.0,)}


def made(kind: type[events.Event]) -> events.Event:
    """An event of this kind, with something in every field that must be given."""
    given = {
        field.name: SAMPLES[str(field.type).partition(" | ")[0]]
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING
    }
    return kind(**given)


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_an_event_has_a_metric(kind: type[events.Event]) -> None:
    from retoma.telemetry import emit  # noqa: PLC0415 - beside its listener

    sheet = Sheet()
    stop = measure(sheet)
    emit(made(kind))
    stop()

    counted = [each for each in sheet.figures() if each.labels == (kind.title(),)]
    assert [(each.name, each.cells) for each in counted] == [("retoma_events_total", (1.0,))]
    sheet.close()


def test_the_page_lists_each_metric_with_its_kind_labels_and_meaning() -> None:
    told = {
        row[1]: (row[2], row[3], row[4])
        for row in re.finditer(
            r"^\| `((?:retoma|gen_ai)_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$",
            PAGE.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    }

    assert told == {
        each.name: (each.kind, ", ".join(f"`{label}`" for label in each.labels) or "–", each.help) for each in METRICS
    }


def test_every_metric_of_a_process_is_written_somewhere_and_every_other_one_is_read_from_the_tables() -> None:
    code = "".join(file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py") if file.name != "catalogue.py")
    sql = (SOURCE / "store/queries/figures.sql").read_text(encoding="utf-8")

    assert [each.name for each in METRICS if each.source == "process" and f'"{each.name}"' not in code] == []
    assert [each.name for each in METRICS if each.source == "database" and f"'{each.name}'" not in sql] == []
    assert set(re.findall(r"'(retoma_\w+)'", sql)) == {each.name for each in METRICS if each.source == "database"}


def test_every_reading_is_of_an_event_in_the_catalogue() -> None:
    assert [kind.__name__ for kind in READINGS if kind not in EVENTS] == []
    assert len(BY_NAME) == len(METRICS)
