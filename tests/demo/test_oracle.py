"""The demo's oracle must be able to say no."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from retoma.demo import oracle
from retoma.demo.diary import CLASSIFY, DONE, READ, Line, begun_anew, redone
from retoma.demo.oracle import Happened
from retoma.demo.samples import Fate, Sample
from retoma.pipelines.classification.model import Result

WELL: dict[str, Any] = {"spent": Decimal(0), "accuracy": 1.0, "baseline": 0.9, "breaches": 0, "seconds": 1.0}
HAPPENED = Happened(killed=1, held=2, given_back=2, stalled=1, resumed=1, recovered=1)


def lines(*told: tuple[int, str]) -> list[Line]:
    return [Line(1, fence, step) for fence, step in told]


@pytest.mark.parametrize(
    ("told", "times"),
    [
        (lines((1, READ), (1, CLASSIFY), (1, DONE)), 0),
        (lines((1, READ), (2, READ), (2, CLASSIFY), (3, CLASSIFY), (3, DONE)), 0),
        (lines((1, READ), (1, CLASSIFY), (2, CLASSIFY), (2, DONE), (3, DONE)), 0),
        (lines((1, READ), (1, CLASSIFY), (2, READ)), 1),
        (lines((1, READ), (1, CLASSIFY), (1, DONE), (2, CLASSIFY)), 1),
        (lines((1, READ), (1, READ)), 1),
    ],
    ids=["once", "cut off and begun anew", "ended twice", "read again", "judged again", "twice in one attempt"],
)
def test_what_was_saved_and_ran_again_is_counted(told: list[Line], times: int) -> None:
    assert redone(told) == times


def test_a_stale_attempt_that_runs_to_its_end_is_not_the_work_done_again() -> None:
    assert redone(lines((1, READ), (2, READ), (2, CLASSIFY), (2, DONE), (1, CLASSIFY))) == 0


def test_steps_that_were_cut_off_are_told_apart_from_those_redone() -> None:
    told = lines((1, READ), (2, READ), (2, CLASSIFY), (3, CLASSIFY), (3, DONE), (4, READ))

    assert (redone(told), begun_anew(told)) == (1, 2)


def result(code: str, **changes: Any) -> Result:
    fields = dict.fromkeys(Result.__dataclass_fields__)
    return Result(**{**fields, "code": code, "state": "completed", "category": "ata", **changes})


SAMPLES = [Sample("0001.pdf", "ata", "pt", Fate.READ), Sample("0002.pdf", "ata", "pt", Fate.TRUNCATED)]
RESULTS = [
    result("0001.pdf"),
    result("0002.pdf", state="failed", category=None, error="document_damaged: 0002.pdf is damaged."),
]


def test_a_run_without_a_fault_is_kept() -> None:
    report = oracle.weigh(SAMPLES, [], RESULTS, [], HAPPENED, **WELL)

    assert report.kept
    assert (report.classified, report.failed, report.reasons) == (1, 1, {"document_damaged": 1})


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"results": RESULTS[:1]}, "nothing_lost"),
        ({"results": [*RESULTS, RESULTS[0]]}, "one_result_per_document"),
        ({"results": [RESULTS[0], replace(RESULTS[1], error=None)]}, "every_error_explained"),
        ({"diary": lines((1, READ), (1, READ))}, "nothing_redone"),
        ({"breaches": 1}, "tables_sound"),
        ({"happened": replace(HAPPENED, given_back=1)}, "worker_killed_and_replaced"),
        ({"happened": replace(HAPPENED, resumed=0)}, "stalled_and_resumed"),
        ({"happened": replace(HAPPENED, recovered=0)}, "errors_recovered"),
    ],
)
def test_each_fault_breaks_its_own_promise(changes: dict[str, Any], check: str) -> None:
    given = {"results": RESULTS, "diary": [], "happened": HAPPENED, **WELL, **changes}

    report = oracle.weigh(SAMPLES, [], **given)

    assert not report.kept
    assert not report.checks[check]
    assert report.as_json()["checks"][check] is False


def test_a_file_that_was_refused_at_the_door_is_accounted_for() -> None:
    assert oracle.weigh(SAMPLES, ["0002.pdf"], RESULTS[:1], [], HAPPENED, **WELL).kept
