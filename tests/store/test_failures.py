"""Failures over all batches, in groups of equal errors."""

from __future__ import annotations

from store_hand import Hand

from retoma.model.failure import FailureGroup
from retoma.model.job import Ended
from retoma.store import failures

DAY = 86_400.0


def fail(db: Hand, worker: int, *errors: str) -> list[int]:
    ids = []
    for error in errors:
        claim = db.claimed(worker)
        db.end(worker, Ended(claim, "failed", error=error, reason="ValueError", step="read"))
        ids.append(claim.id)
    return ids


def groups(db: Hand, **wanted: float) -> list[FailureGroup]:
    return db.ask(failures.groups(**{"hours": 24.0, **wanted}))


class TestGroups:
    def test_equal_errors_are_one_group_and_numbers_and_files_make_no_difference(self, db: Hand) -> None:
        worker = db.hello(lease=1e7)
        ids = fail(db, worker, "ValueError: page 3 of a.pdf is empty\nstack", "ValueError: page 12 of b.pdf is empty")
        fail(db, worker, "OSError: no space")

        found = groups(db)

        assert [(each.jobs, each.kind, each.step, each.new) for each in found] == [
            (2, "ValueError", "read", True), (1, "OSError", "read", True)
        ]  # fmt: skip
        assert (found[0].sample, found[0].example) == (ids[::-1], "ValueError: page 12 of b.pdf is empty")

    def test_one_seen_before_the_window_is_not_new_and_one_not_seen_since_is_not_there(self, db: Hand) -> None:
        worker = db.hello(lease=1e7)
        fail(db, worker, "OSError: old", "OSError: both")
        db.age(2 * DAY)
        worker = db.hello(lease=1e7)
        fail(db, worker, "OSError: both", "OSError: fresh")

        day, week = groups(db), groups(db, hours=7 * 24.0)

        assert {each.example: (each.jobs, each.new) for each in day} == {
            "OSError: both": (1, False), "OSError: fresh": (1, True)
        }  # fmt: skip
        assert {each.example: (each.jobs, each.new) for each in week} == {
            "OSError: both": (2, True), "OSError: fresh": (1, True), "OSError: old": (1, True)
        }  # fmt: skip

    def test_a_job_that_is_tried_again_leaves_its_group(self, db: Hand) -> None:
        worker = db.hello(lease=1e7)
        (id,) = fail(db, worker, "OSError: once")
        db.sql("update retoma.jobs set state = 'queued', finished_at = null, max_attempts = 9 where id = %(id)s", id=id)

        assert groups(db) == []
