"""How far a batch has come: figures from one snapshot, and none that promises too much."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from retoma.model.batch import BatchState, Progress

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def progress(**changes: Any) -> Progress:
    """A batch of 1,000 that has run for an hour at one job a second, unless told otherwise."""
    plain: dict[str, Any] = {
        "id": 1, "name": "letters", "state": "running", "reason": None, "total": 1000, "queued": 390, "running": 10,
        "completed": 590, "skipped": 4, "failed": 3, "review": 2, "cancelled": 1, "resumes": 0, "max_resumes": 3,
        "last_progress_at": ago(1), "last_key": "a", "pace_minute": 60.0, "pace_five": 300.0, "busy_seconds": 9.0,
        "spent": Decimal(0), "budget": None, "stall_seconds": 300.0, "created_at": ago(4000), "started_at": ago(3600),
        "stalled_at": None, "finished_at": None, "epoch": 1, "event_seq": 9, "now": NOW,
    }  # fmt: skip
    return Progress(**plain | changes)


class TestPercent:
    def test_what_has_ended_however_counts_as_done(self) -> None:
        assert (progress().done, progress().percent) == (600, 60.0)

    @pytest.mark.parametrize("total", [2, 3, 7, 999, 1000, 1001, 10_000, 999_999, 1_000_000])
    def test_it_is_100_only_when_all_have_ended(self, total: int) -> None:
        nothing: dict[str, Any] = {"skipped": 0, "failed": 0, "review": 0, "cancelled": 0, "running": 0}
        almost = progress(total=total, queued=1, completed=total - 1, **nothing)
        whole = progress(total=total, queued=0, completed=total, **nothing)

        assert almost.percent < 100
        assert whole.percent == 100.0

    def test_it_never_goes_back_while_jobs_end(self) -> None:
        nothing: dict[str, Any] = {"skipped": 0, "failed": 0, "review": 0, "cancelled": 0, "running": 0}
        seen = [progress(total=777, queued=777 - done, completed=done, **nothing).percent for done in range(778)]

        assert seen == sorted(seen)
        assert (seen[0], seen[-1]) == (0.0, 100.0)

    def test_a_batch_without_jobs_is_at_the_beginning(self) -> None:
        assert progress(total=0, completed=0, skipped=0, failed=0, review=0, cancelled=0).percent == 0.0


class TestTimes:
    def test_it_has_not_begun(self) -> None:
        assert progress(state="queued", started_at=None).elapsed is None

    def test_since_it_began_until_now_or_until_it_ended(self) -> None:
        assert progress().elapsed == 3600
        assert progress(state="completed", finished_at=ago(600)).elapsed == 3000

    @pytest.mark.parametrize("state", ["running", "stalled"])
    def test_silence_is_counted_while_it_is_at_work(self, state: str) -> None:
        assert progress(state=state, last_progress_at=ago(42)).silent_seconds == 42

    @pytest.mark.parametrize("state", ["queued", "paused", "completed", "failed", "cancelled"])
    def test_rest_is_not_silence(self, state: str) -> None:
        now = progress(state=state, last_progress_at=ago(42))

        assert (now.silent_seconds, now.stalls_in) == (None, None)

    def test_a_clock_that_was_read_a_moment_earlier_gives_no_negative_silence(self) -> None:
        assert progress(last_progress_at=ago(-1)).silent_seconds == 0.0

    def test_the_time_until_the_watchdog_asks(self) -> None:
        assert progress(last_progress_at=ago(100)).stalls_in == 200
        assert progress(last_progress_at=ago(1000)).stalls_in == 0.0
        assert progress(state="stalled", last_progress_at=ago(1000)).stalls_in is None
        assert progress(last_progress_at=None).stalls_in is None


class TestRate:
    def test_a_steady_batch_has_its_own_rate(self) -> None:
        assert progress().rate == pytest.approx(1.0, rel=0.001)

    @pytest.mark.parametrize("seconds", [5, 20, 60, 200])
    def test_a_young_batch_is_not_called_slow_for_its_youth(self, seconds: int) -> None:
        """Counts that fade have seen only as much as there was to see."""
        pace = {
            name: 2.0 * window * -math.expm1(-seconds / window)
            for name, window in (("pace_minute", 60.0), ("pace_five", 300.0))
        }

        assert progress(started_at=ago(seconds), **pace).rate == pytest.approx(2.0)

    def test_it_lies_between_the_last_minute_and_the_last_five(self) -> None:
        rate = progress(pace_minute=120.0, pace_five=300.0).rate

        assert rate is not None
        assert 1.0 < rate < 2.0

    @pytest.mark.parametrize("state", [each for each in BatchState if each is not BatchState.RUNNING])
    def test_what_does_not_run_has_none(self, state: str) -> None:
        assert (progress(state=state).rate, progress(state=state).eta) == (None, None)

    @pytest.mark.parametrize("changes", [{"pace_minute": 0.0}, {"pace_five": None}, {"started_at": NOW}])
    def test_nothing_to_go_by_is_no_rate(self, changes: dict[str, Any]) -> None:
        assert (progress(**changes).rate, progress(**changes).eta) == (None, None)


class TestEta:
    def test_the_truth_of_a_steady_batch_is_in_its_range(self) -> None:
        eta = progress().eta

        assert eta is not None
        least, most = eta
        assert least <= timedelta(seconds=400) <= most
        assert most < timedelta(seconds=600)

    def test_few_jobs_make_a_wide_range(self) -> None:
        narrow = progress().eta
        wide = progress(pace_minute=0.6, pace_five=3.0).eta

        assert narrow is not None
        assert wide is not None
        assert wide[1] / wide[0] > narrow[1] / narrow[0]

    def test_the_range_takes_in_both_windows(self) -> None:
        eta = progress(pace_minute=180.0, pace_five=300.0).eta

        assert eta is not None
        assert eta[0] <= timedelta(seconds=400 / 3)
        assert eta[1] >= timedelta(seconds=400)

    @pytest.mark.parametrize(
        "changes",
        [
            {"completed": 0, "skipped": 0, "failed": 3, "review": 2, "cancelled": 1, "queued": 984},
            {"started_at": ago(14)},
        ],
    )
    def test_too_little_was_seen_to_say(self, changes: dict[str, Any]) -> None:
        assert progress(**changes).eta is None

    def test_nobody_wants_the_seconds_above_two_minutes(self) -> None:
        for left in (1, 50, 118, 500, 5000):
            eta = progress(queued=left, running=0).eta
            assert eta is not None
            for each in eta:
                seconds = each.total_seconds()
                assert seconds == int(seconds)
                assert seconds <= 120 or seconds % 60 == 0

    def test_there_is_none_while_nothing_ends(self) -> None:
        def after(seconds: float, **changes: Any) -> Progress:
            """One job a second, and then none for so long."""
            faded = {"pace_minute": 60 * math.exp(-seconds / 60), "pace_five": 300 * math.exp(-seconds / 300)}
            return progress(last_progress_at=ago(seconds), **faded | changes)

        assert after(5).eta is not None
        for seconds in (20, 60, 600, 36_000):
            assert (after(seconds).eta, after(seconds).rate, after(seconds).nothing_ends) == (None, None, True)

    def test_slow_jobs_that_end_as_they_always_did_are_no_silence(self) -> None:
        slow = progress(last_progress_at=ago(100), pace_minute=0.6, pace_five=3.0, queued=20, total=610)

        assert not slow.nothing_ends

    def test_a_range_that_says_nothing_is_not_shown(self) -> None:
        assert progress(pace_minute=0.01, pace_five=12.0, queued=1_000, total=1610).eta is None

    @pytest.mark.parametrize("left", [1, 2, 3])
    def test_what_is_left_takes_at_least_a_second(self, left: int) -> None:
        shown = progress(queued=left, running=0, total=600 + left).eta

        assert shown is not None
        assert timedelta(seconds=1) <= shown[0] <= shown[1]

    def test_nothing_left_takes_no_time(self) -> None:
        assert progress(queued=0, running=0).eta == (timedelta(0), timedelta(0))
