"""Why a batch moves, or does not: every verdict from the evidence that makes it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import orjson
import pytest

from retoma.model.diagnosis import STALLING, explain, judge
from retoma.model.evidence import Evidence, Verdict

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def seen(**changes: Any) -> Evidence:
    """A batch that runs and moves, unless told otherwise."""
    plain: dict[str, Any] = {
        "state": "running", "reason": None, "queue": "letters", "pipeline": "read", "sealed_at": ago(3600),
        "started_at": ago(3600), "last_progress_at": ago(5), "stall_seconds": 300.0, "epoch": 1, "event_seq": 9,
        "budget": None, "spent": Decimal(0), "last_key": "a-7", "resumes": 1, "max_resumes": 3, "unfinished": 40,
        "failures": 0, "queue_paused": None, "queued": 36, "due": 36, "next_run_at": None, "next_reason": None,
        "oldest_due_at": ago(3600), "troubled": 0, "limited_seconds": None, "call_status": None, "call_error": None,
        "worst": None, "cause": None,
        "running": 4, "orphaned": 0, "lost_worker": None, "lost_at": None, "outlived_seconds": 3.0,
        "oldest_key": "a-8", "oldest_seconds": 9.0, "last_step_at": None, "slowest_seconds": 10.0, "workers": 2,
        "idle_workers": 0, "bad_endings": 0, "bad_ending": None, "bad_reason": None, "bad_error": None,
        "suspect_key": None, "suspect_crashes": None, "shut_limit": None,
        "shut_until": None, "shut_broken": False, "now": NOW,
    }  # fmt: skip
    return Evidence(**plain | changes)


def silent(**changes: Any) -> Evidence:
    return seen(**{"last_progress_at": ago(301)} | changes)


def failing(**changes: Any) -> Evidence:
    """Silent, and no job that runs has got further than those that ended badly."""
    return silent(**{"outlived_seconds": None, "troubled": 2} | changes)


COOLS: dict[str, Any] = {"shut_limit": "openrouter/x", "shut_until": NOW + timedelta(seconds=90)}
IDLE: dict[str, Any] = {"running": 0, "outlived_seconds": None, "oldest_key": None, "oldest_seconds": None}

VERDICTS: dict[str, tuple[Verdict, Evidence]] = {
    "jobs end": (Verdict.MOVING, seen()),
    "a job ended within what it allows": (Verdict.MOVING, seen(last_progress_at=ago(299))),
    "no job ended but a step was saved": (Verdict.MOVING, silent(last_step_at=ago(10))),
    "handlers within what such jobs took": (Verdict.SLOW, silent(outlived_seconds=50.0)),
    "slow jobs in a batch of slow jobs": (Verdict.SLOW, silent(outlived_seconds=2400.0, slowest_seconds=500.0)),
    "nobody knows yet what is long": (Verdict.SLOW, silent(outlived_seconds=9999.0, slowest_seconds=None)),
    "one of several has just begun": (Verdict.SLOW, silent(outlived_seconds=1.0, oldest_seconds=9999.0)),
    "far longer than any before": (Verdict.HANGING, silent(outlived_seconds=301.0)),
    "far longer than even slow ones": (Verdict.HANGING, silent(outlived_seconds=2501.0, slowest_seconds=500.0)),
    "nothing was taken yet and there is room": (Verdict.READY, seen(state="queued", started_at=None, idle_workers=1)),
    "nothing was taken yet and all are busy": (Verdict.SATURATED, seen(state="queued", started_at=None)),
    "all are busy with others": (Verdict.SATURATED, silent(**IDLE)),
    "room and jobs and silence": (Verdict.SILENT, silent(**IDLE, idle_workers=1)),
    "room and jobs whose hour has just come": (
        Verdict.MOVING,
        silent(**IDLE, idle_workers=1, oldest_due_at=ago(1)),
    ),
    "every job waits for its hour": (
        Verdict.WAITING,
        silent(**IDLE, due=0, next_run_at=ago(-600), next_reason="RateLimited"),
    ),
    "waiting needs no worker": (Verdict.WAITING, silent(**IDLE, due=0, next_run_at=ago(-600), workers=0)),
    "somebody paused it": (Verdict.PAUSED, silent(state="paused", reason="person")),
    "its money is spent": (Verdict.BUDGET, silent(state="paused", reason="budget", budget=Decimal(5))),
    "nobody knows a price": (
        Verdict.PRICE_UNKNOWN,
        silent(state="paused", reason="price_unknown: acme/large-1", budget=Decimal(5)),
    ),
    "its queue is paused": (Verdict.QUEUE_PAUSED, silent(queue_paused="repairs", workers=0)),
    "it is being filled": (Verdict.UNSEALED, seen(state="queued", sealed_at=None, started_at=None)),
    "its pilot is over": (Verdict.PILOTED, silent(**{**IDLE, "queued": 0, "due": 0}, held=True)),
    "its pilot still runs": (Verdict.MOVING, seen(held=True)),
    "nobody serves it": (Verdict.NO_WORKERS, silent(**IDLE, workers=0)),
    "nobody serves it and it never began": (
        Verdict.NO_WORKERS,
        seen(**IDLE, state="queued", started_at=None, last_progress_at=None, workers=0),
    ),
    "the only worker is lost": (Verdict.NO_WORKERS, silent(workers=0, orphaned=4)),
    "a worker is gone and others are alive": (Verdict.WORKER_LOST, silent(orphaned=4, lost_worker="w-1", lost_at=NOW)),
    "a worker that hands back still counts": (Verdict.SLOW, silent(workers=0, orphaned=0)),
    "a document brings executors down": (
        Verdict.POISON,
        failing(suspect_key="a-9", suspect_crashes=2, bad_endings=2, bad_ending="crashed"),
    ),
    "a document was there when workers were lost": (
        Verdict.POISON,
        failing(suspect_key="a-9", suspect_crashes=2, bad_endings=2, bad_ending="lost"),
    ),
    "an old crash is not the cause of other errors": (
        Verdict.FAILING,
        failing(suspect_crashes=1, bad_endings=9, bad_ending="failed", bad_reason="ValueError"),
    ),
    "attempts end badly": (Verdict.FAILING, failing(bad_endings=4, bad_ending="failed", bad_reason="ValueError")),
    "two endings are the least that say so": (
        Verdict.FAILING,
        silent(**IDLE, troubled=2, bad_endings=2, bad_ending="failed", bad_reason=None),
    ),
    "one bad ending says nothing": (Verdict.SLOW, failing(running=1, bad_endings=1, bad_ending="failed")),
    "a job has outlived those that ended badly": (
        Verdict.SLOW,
        silent(bad_endings=9, bad_ending="failed", bad_reason="ConnectionError", troubled=9, outlived_seconds=290.0),
    ),
    "a job has outlived them and hangs": (
        Verdict.FAILING,
        silent(bad_endings=9, bad_ending="failed", bad_reason="ValueError", troubled=9, outlived_seconds=999.0),
    ),
    "every job waits to be tried again": (
        Verdict.PROVIDER_DOWN,
        silent(**IDLE, due=0, troubled=36, next_run_at=ago(-600), bad_endings=9, bad_reason="ProviderDown"),
    ),
    "every job waits to be tried again, and lately one ended": (
        Verdict.WAITING,
        seen(**IDLE, due=0, troubled=36, next_run_at=ago(-600), bad_endings=9, bad_reason="ProviderDown"),
    ),
    "every job was sent away, and a due time is no movement": (
        Verdict.PROVIDER_DOWN,
        silent(**IDLE, shut_limit="x", shut_until=NOW, shut_broken=True, oldest_due_at=ago(0), troubled=36),
    ),
    "every job was sent away, and nobody is there": (
        Verdict.NO_WORKERS,
        silent(**IDLE, due=0, troubled=36, next_run_at=ago(-6), shut_broken=True, shut_limit="x", workers=0),
    ),
    "the provider sends everybody away again and again": (
        Verdict.RATE_LIMITED,
        silent(**IDLE, **COOLS, due=0, troubled=36, next_run_at=ago(-6), limited_seconds=300.0),
    ),
    "the provider has named one long wait": (
        Verdict.WAITING,
        silent(**IDLE, **COOLS, due=0, troubled=36, next_run_at=ago(-600), limited_seconds=1.0),
    ),
    "attempts are sent away": (Verdict.RATE_LIMITED, failing(bad_endings=4, bad_reason="RateLimited")),
    "its key is refused": (Verdict.REFUSED, silent(state="paused", reason="refused by openai")),
    "it is stalled and one is being tried": (
        Verdict.PROVIDER_DOWN,
        silent(state="stalled", running=1, cause={"verdict": "provider_down"}),
    ),
    "its provider limits requests": (Verdict.WAITING, silent(**IDLE, **COOLS)),
    "its provider's breaker is open": (Verdict.PROVIDER_DOWN, silent(**IDLE, **COOLS | {"shut_broken": True})),
    "its breaker is open and another's job goes on": (Verdict.SLOW, silent(**COOLS | {"shut_broken": True})),
    "its provider limits, and jobs end": (Verdict.MOVING, seen(**COOLS)),
    "a document brings executors down while a provider limits": (
        Verdict.POISON,
        failing(**COOLS, suspect_key="a-9", suspect_crashes=2, bad_endings=2, bad_ending="crashed"),
    ),
    "it is completed": (Verdict.COMPLETED, silent(state="completed")),
    "it failed": (Verdict.FAILED, silent(state="failed", reason="resumes")),
    "it was cancelled": (Verdict.CANCELLED, silent(state="cancelled")),
} | {
    f"the provider says {reason}": (
        Verdict.PROVIDER_DOWN,
        failing(bad_endings=4, bad_ending="failed", bad_reason=reason),
    )
    for reason in ("ProviderError", "TimeoutError", "ReadTimeout", "ConnectError", "HTTPStatusError")
}


@pytest.mark.parametrize("case", VERDICTS)
def test_the_verdict(case: str) -> None:
    expected, evidence = VERDICTS[case]

    assert judge(evidence) is expected


def test_every_verdict_is_reached() -> None:
    assert {verdict for verdict, _ in VERDICTS.values()} == set(Verdict)


@pytest.mark.parametrize("case", VERDICTS)
def test_every_explanation_has_a_sentence_an_action_and_facts_that_can_be_kept(case: str) -> None:
    _, evidence = VERDICTS[case]

    why = explain(7, evidence)

    assert why.sentence.endswith(".")
    assert ".." not in why.sentence
    assert why.action in {
        "wait", "resume", "fix_and_resume", "fix_key", "start_worker", "resume_queue", "raise_budget", "set_price",
        "seal", "release", "retry_failed", "none",
    }  # fmt: skip
    assert (why.command is None) == (why.action == "none")
    assert orjson.loads(orjson.dumps(why.evidence))["state"] == evidence.state
    assert "None" not in why.sentence


@pytest.mark.parametrize("case", VERDICTS)
def test_what_needs_help_is_what_will_not_move_by_itself(case: str) -> None:
    verdict, evidence = VERDICTS[case]
    innocent = {
        Verdict.MOVING, Verdict.SLOW, Verdict.READY, Verdict.WAITING, Verdict.SATURATED, Verdict.COMPLETED,
        Verdict.CANCELLED,
    }  # fmt: skip

    assert explain(7, evidence).needs_help == (verdict not in innocent)


def test_no_innocent_verdict_is_one_for_which_a_batch_is_called_stalled() -> None:
    assert {
        Verdict.NO_WORKERS, Verdict.WORKER_LOST, Verdict.POISON, Verdict.FAILING, Verdict.PROVIDER_DOWN,
        Verdict.RATE_LIMITED, Verdict.HANGING, Verdict.SILENT,
    } == STALLING  # fmt: skip


@pytest.mark.parametrize("state", ["running", "stalled"])
@pytest.mark.parametrize("running", [0, 1, 4])
@pytest.mark.parametrize("bad", [0, 9])
def test_a_batch_that_moved_lately_is_never_called_stuck(state: str, running: int, bad: int) -> None:
    evidence = seen(
        state=state, running=running, outlived_seconds=99_999.0, bad_endings=bad, bad_ending="crashed",
        suspect_crashes=2, suspect_key="a-9", idle_workers=1, orphaned=0,
    )  # fmt: skip

    assert judge(evidence) is Verdict.MOVING


class TestWords:
    def test_a_hang_names_the_document_and_how_long_it_takes_against_the_usual(self) -> None:
        why = explain(7, silent(outlived_seconds=400.0, oldest_seconds=500.0))

        for fact in ("4 jobs hang", "a-8", "8 min 20 s", "the slowest so far took 10 s", "a-7"):
            assert fact in why.sentence
        assert why.command == "retoma batch resume 7"

    def test_no_worker_says_which_queue_to_serve(self) -> None:
        why = explain(7, silent(**IDLE, workers=0))

        assert "letters" in why.sentence
        assert (why.action, why.command) == ("start_worker", "retoma worker --queues letters")

    def test_waiting_says_until_when_and_for_what(self) -> None:
        why = explain(7, silent(**IDLE, due=0, next_run_at=ago(-600), next_reason="RateLimited"))

        assert why.sentence == "Every job waits until 12:10:00 UTC (RateLimited)."

    def test_a_provider_that_limits_or_fails_is_named_with_the_time_it_takes(self) -> None:
        limits = " Provider openrouter/x limits requests until 12:01:30 UTC."
        waits = silent(**IDLE, **COOLS, due=0, next_run_at=ago(-95), next_reason="limited: openrouter/x")

        assert explain(7, seen(**COOLS)).sentence.endswith(limits)
        assert explain(7, waits).sentence == f"Every job waits until 12:01:35 UTC (limited: openrouter/x).{limits}"
        assert explain(7, silent(**IDLE, **COOLS)).sentence.startswith("Every job waits until 12:01:30 UTC")
        broken = explain(7, silent(**IDLE, **COOLS | {"shut_broken": True}, bad_endings=5, bad_ending="failed"))
        assert "openrouter/x failed too often: its breaker is open until 12:01:30 UTC." in broken.sentence

    def test_errors_are_told_in_their_own_words(self) -> None:
        why = explain(
            7, failing(bad_endings=4, bad_ending="failed", bad_reason="ValueError", bad_error="ValueError: 7")
        )

        assert "ValueError: 7" in why.sentence
        assert (why.action, "a resume alone fails again" in why.advice) == ("fix_and_resume", True)

    def test_a_refused_key_is_told_with_what_the_provider_answered_and_what_to_do_first(self) -> None:
        refused = silent(
            state="paused", reason="refused by openai", call_status=401, call_error="Incorrect API key provided: sk-…9."
        )

        why = explain(7, refused)

        assert (
            "openai does not accept our key or account (HTTP 401): Incorrect API key provided: sk-…9." in why.sentence
        )
        assert why.advice.startswith("Fix the key or the account where the workers read it, restart the workers")
        assert (why.action, why.command) == ("fix_key", "retoma batch resume 7")

    def test_too_many_failures_name_the_errors_that_dominate(self) -> None:
        worst = [{"error": "ValueError: no date.", "jobs": 9}, {"error": "OSError: gone", "jobs": 3}]

        why = explain(7, silent(state="failed", reason="failures", failures=12, worst=worst))

        assert "12 jobs failed, more than it allows: 9 × ValueError: no date; 3 × OSError: gone." in why.sentence
        assert "Fix that first" in why.advice

    def test_what_failed_for_good_says_what_it_stalled_on(self) -> None:
        cause = {"verdict": "hanging", "sentence": "4 jobs hang.", "advice": "Resume."}

        why = explain(7, silent(state="failed", reason="resumes", resumes=3, cause=cause))

        assert "after 3 of 3 resumes. 4 jobs hang." in why.sentence

    def test_a_provider_that_is_down_is_told_with_its_own_error(self) -> None:
        down = silent(
            **IDLE, **COOLS | {"shut_broken": True}, troubled=9, call_error="ProviderDown: HTTP 503: overloaded"
        )

        assert "nothing has ended for 5 min 1 s: ProviderDown: HTTP 503: overloaded." in explain(7, down).sentence

    def test_a_batch_without_resumes_is_told_how_to_allow_one_more(self) -> None:
        why = explain(7, silent(state="failed", reason="resumes", resumes=3))

        assert "after 3 of 3 resumes" in why.sentence
        assert why.command == "retoma batch resume 7 --max-resumes 4"

    def test_too_many_failures_are_told_with_their_number(self) -> None:
        assert "12 jobs failed" in explain(7, silent(state="failed", reason="failures", failures=12)).sentence

    def test_a_completed_batch_offers_to_retry_what_failed(self) -> None:
        assert explain(7, seen(state="completed", failures=2)).action == "retry_failed"
        assert explain(7, seen(state="completed")).action == "none"

    def test_a_budget_says_what_was_spent_of_it(self) -> None:
        why = explain(7, seen(state="paused", reason="budget", budget=Decimal("5.00"), spent=Decimal("5.02")))

        assert "5.02 of 5.00" in why.sentence
        assert why.action == "raise_budget"

    @pytest.mark.parametrize(
        ("reason", "command"),
        [
            ("price_unknown: acme/large/1", "retoma prices set acme large/1 --input … --output …"),
            ("price_unknown: azure-documents/layout by unit", "retoma prices set azure-documents layout --unit …"),
        ],
    )
    def test_a_price_that_nobody_knows_is_asked_for_in_its_own_unit(self, reason: str, command: str) -> None:
        why = explain(7, seen(state="paused", reason=reason, budget=Decimal(5)))

        assert (why.action, why.command, why.needs_help) == ("set_price", command, True)


class TestSilence:
    def test_it_counts_from_whatever_moved_last(self) -> None:
        assert seen(last_progress_at=ago(90), last_step_at=ago(40)).silent_seconds == 40
        assert seen(last_progress_at=ago(30), last_step_at=ago(40)).silent_seconds == 30
        assert seen(last_progress_at=None, last_step_at=None).silent_seconds == 0.0

    def test_that_a_job_is_due_again_is_no_movement_when_something_went_wrong(self) -> None:
        assert silent(**IDLE, oldest_due_at=ago(1)).silent_seconds == 1
        assert silent(**IDLE, oldest_due_at=ago(1), troubled=1).silent_seconds == 301

    def test_as_long_as_it_allows_is_too_long(self) -> None:
        assert not seen(last_progress_at=ago(299.9)).silent
        assert seen(last_progress_at=ago(300)).silent
        assert not replace(seen(last_progress_at=ago(300)), stall_seconds=301.0).silent
