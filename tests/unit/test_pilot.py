"""What a pilot says of the whole: the same each time, with an interval, and nothing where nothing is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from retoma.model.batch import Batch
from retoma.model.ids import BatchId
from retoma.model.pilot import Pilot, Tried, pilot_of

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def batch(total: int, *, held: bool = True) -> Batch:
    return Batch(
        id=BatchId(7), name="letters", pipeline="read", queue="read", route=None, labels={}, configuration={},
        correlation_id=None, state="running", reason=None, cause=None, total=total, unfinished=total, failures=0,
        resumes=0, max_resumes=3, max_failure_rate=None, budget=None, spent=Decimal(0), stall_seconds=300.0, epoch=1,
        event_seq=1, created_at=NOW, sealed_at=NOW, expires_at=None, started_at=NOW, stalled_at=None, finished_at=None,
        last_progress_at=NOW, last_key=None, held_at=NOW if held else None,
    )  # fmt: skip


def tried(*costs: str, state: str = "completed", seconds: float = 2.0, unpriced: int = 0) -> list[Tried]:
    return [
        Tried(id, state, 100, seconds, NOW, NOW + timedelta(seconds=seconds), Decimal(cost), unpriced)
        for id, cost in enumerate(costs, 1)
    ]


def test_the_projection_is_the_mean_times_all_jobs_with_an_interval_around_it() -> None:
    found = pilot_of(batch(1000), tried(*["0.01", "0.03"] * 10))

    assert found.cost is not None
    assert found.cost.likely == pytest.approx(20.0)
    assert 10.0 < found.cost.low < 20.0 < found.cost.high < 30.0
    assert found.spent == Decimal("0.40")
    assert (found.jobs, found.held, found.over, found.released) == (20, 980, True, False)


def test_the_same_pilot_says_the_same_each_time() -> None:
    rows = tried("0.01", "0.5", "0.02", "0.07", "0.01")

    assert pilot_of(batch(500), rows) == pilot_of(batch(500), rows)


def test_equal_jobs_leave_no_room_for_doubt() -> None:
    found = pilot_of(batch(100), tried(*["0.02"] * 20))

    assert found.cost is not None
    assert (found.cost.low, found.cost.high) == (pytest.approx(2.0), pytest.approx(2.0))


def test_none_that_failed_of_twenty_does_not_mean_that_none_will() -> None:
    found = pilot_of(batch(100), tried(*["0"] * 20))

    assert found.failure_rate is not None
    assert (found.failure_rate.likely, found.failure_rate.low) == (0.0, 0.0)
    assert 0.10 < found.failure_rate.high < 0.15


def test_failures_are_counted_and_what_was_cancelled_is_not() -> None:
    rows = tried(*["0"] * 6) + tried(*["0"] * 2, state="failed") + tried("0", state="cancelled")

    found = pilot_of(batch(100), rows)

    assert found.failure_rate is not None
    assert (found.completed, found.failed, found.ended) == (6, 2, 9)
    assert found.failure_rate.likely == 0.25


def test_the_time_on_the_clock_is_that_of_as_many_at_the_same_time() -> None:
    found = pilot_of(batch(1000), tried(*["0"] * 10, seconds=4.0))

    assert found.work_seconds is not None
    assert found.elapsed_seconds is not None
    assert found.work_seconds.likely == pytest.approx(4000.0)
    assert found.elapsed_seconds.likely == pytest.approx(400.0)  # ten ran together


def nothing(found: Pilot) -> bool:
    return found.cost is None and found.work_seconds is None and found.failure_rate is None


def test_too_few_endings_project_nothing() -> None:
    assert nothing(pilot_of(batch(100), tried("0.01", "0.02") + tried("0", "0", state="queued")))
    assert nothing(pilot_of(batch(100, held=False), []))


def test_an_unknown_price_projects_no_cost_and_still_time() -> None:
    found = pilot_of(batch(100), tried(*["0.01"] * 5, unpriced=1))

    assert found.cost is None
    assert found.unpriced == 5
    assert found.work_seconds is not None
