"""What pages show of batches, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from store_batch import BatchHand, hands

from retoma.commands import batch_figures as figure_commands
from retoma.errors import ConfigurationError, NotFound
from retoma.store import batch_figures, batches
from retoma.store.batch_figures import MemberFilter

ALL = ("queued", "running", "completed", "skipped", "failed", "review", "cancelled")


@pytest.fixture
def hand(room: str) -> Iterator[Callable[..., BatchHand]]:
    yield from hands(room)


class TestStandings:
    def test_they_say_what_each_batch_says_of_itself(self, db: BatchHand) -> None:
        worker, mixed = db.hello(), db.batch(9)
        db.finish(worker, "completed", "completed", "skipped", "failed", "review", "cancelled")
        db.take(worker, mixed)
        filling = db.open()
        db.fill(filling, 1, 2, 3)
        cancelled = db.batch(3)
        db.cancel(cancelled)

        found = {each.id: each for each in db.ask(batch_figures.standings([mixed, filling, cancelled, 999_999]))}

        assert set(found) == {mixed, filling, cancelled}
        for id, standing in found.items():
            alone = db.progress(id)
            counts = ("total", *ALL, "done", "percent", "state", "epoch", "event_seq", "spent")
            assert {name: getattr(standing, name) for name in counts} == {name: getattr(alone, name) for name in counts}

    def test_failed_jobs_that_are_tried_again_wait_again(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(2)
        db.finish(worker, "failed", "completed")
        db.retry_failed(id)

        [standing] = db.ask(batch_figures.standings([id]))

        assert (standing.queued, standing.failed, standing.completed) == (1, 0, 1)


class TestMosaic:
    def test_one_letter_for_each_job_in_the_order_of_the_inputs(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(8)
        states = ["completed", "skipped", "failed", "review", "cancelled", "completed", "failed"]
        jobs = db.finish(worker, *states)
        ended = dict(zip(jobs, states, strict=True))
        letters = {"completed": "c", "skipped": "s", "failed": "f", "review": "v", "cancelled": "x", "": "q"}

        told = "".join(letters[ended.get(job, "")] for job in db.jobs_of(id))

        assert db.ask(batch_figures.mosaic(id)) == [told]
        assert db.ask(batch_figures.mosaic(id, limit=3)) == [told[:3]]

    def test_a_batch_of_another_has_no_letter_in_it(self, db: BatchHand) -> None:
        id = db.batch(2)
        db.batch(5)

        assert db.ask(batch_figures.mosaic(id)) == ["qq"]
        assert db.ask(batch_figures.mosaic(999_999)) == [""]


class TestPlaced:
    def test_a_place_of_the_mosaic_is_a_job(self, db: BatchHand) -> None:
        id = db.batch(3)
        db.batch(3)

        places = [db.ask(batch_figures.placed(id, place)) for place in range(4)]

        assert places == [[job] for job in db.jobs_of(id)] + [[]]
        with pytest.raises(NotFound, match="no job at place 3"):
            db.do(figure_commands.placed(id, 3))


class TestSeries:
    def test_endings_are_counted_where_they_happened(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e6), db.batch(6)
        db.finish(worker, "completed", "completed", "failed", seconds=3.0)
        db.sql("update retoma.batches set started_at = started_at - interval '10 minutes' where id = %(id)s", id=id)
        first = "update retoma.attempts set ended_at = ended_at - interval '10 minutes'"
        db.sql(first)
        db.finish(worker, "skipped", "review", seconds=5.0)

        early, late = db.ask(batch_figures.series(id, buckets=10))

        assert (early.done, early.failed, early.median_seconds, early.slow_seconds) == (2, 1, 3.0, 3.0)
        assert (late.done, late.failed, late.median_seconds) == (2, 0, 5.0)
        assert early.seconds == late.seconds == 120
        assert (late.at - early.at).total_seconds() % 120 == 0
        assert 480 <= (late.at - early.at).total_seconds() <= 600

    def test_a_batch_that_has_not_begun_has_none(self, db: BatchHand) -> None:
        assert db.ask(batch_figures.series(db.batch(2), buckets=10)) == []

    def test_there_are_never_more_than_were_asked_for(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e9), db.batch(40)
        db.finish(worker, *["completed"] * 40, seconds=1.0)
        db.sql("update retoma.batches set started_at = now() - interval '400 days' where id = %(id)s", id=id)
        db.sql("update retoma.attempts set ended_at = now() - make_interval(days => mod(job_id, 400)::integer)")

        found = db.ask(batch_figures.series(id, buckets=7))

        assert sum(each.done for each in found) == 40
        assert 0 < len(found) <= 8

    def test_a_number_of_stretches_that_cannot_be_is_refused(self, db: BatchHand) -> None:
        for wrong in (0, 201):
            with pytest.raises(ConfigurationError, match="buckets"):
                db.do(figure_commands.series(db.batch(1), buckets=wrong))


class TestMembers:
    def members(self, db: BatchHand, id: int, **wanted: Any) -> list[int]:
        return [each.id for each in db.ask(batch_figures.members(id, MemberFilter(**{"states": ALL, **wanted})))]

    def test_they_come_in_the_order_of_the_inputs_through_each_filter(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(6)
        done, bad, other = db.finish(worker, "completed", "failed", "failed")
        db.sql("update retoma.jobs set error = 'ValueError: no date in it' where id = %(id)s", id=other)
        [claim] = db.take(worker, id)
        db.save(worker, claim, "read")
        db.batch(2)
        every = db.jobs_of(id)

        assert self.members(db, id) == every
        assert (self.members(db, id, limit=2), self.members(db, id, after=every[3])) == (every[:2], every[4:])
        assert self.members(db, id, states=["failed"]) == sorted([bad, other])
        assert self.members(db, id, states=["completed", "running"]) == sorted([done, claim.id])
        assert self.members(db, id, text="K5") == every[5:]
        groups = {each.fingerprint: each.first_jobs for each in db.ask(batches.errors(id))}
        assert {mark: self.members(db, id, states=["failed"], fingerprint=mark) for mark in groups} == groups
        assert len(groups) == 2
        assert self.members(db, id, states=["queued", "running"], saved=True) == [claim.id]
        assert claim.id not in self.members(db, id, states=["queued", "running"], saved=False)

    def test_each_says_how_far_it_is_and_what_it_cost(self, db: BatchHand) -> None:
        worker, id = db.hello(), db.batch(1)
        [claim] = db.take(worker, id)
        db.save(worker, claim, "read")
        db.age(1)
        db.save(worker, claim, "ask")
        db.sql(
            "insert into retoma.calls (key, provider, model, job_id, state, request, answer, answered_at, cost)"
            " values ('k', 'p', 'm', %(id)s, 'answered', '{}', '', now(), 0.25)",
            id=claim.id,
        )

        [member] = db.ask(batch_figures.members(id, MemberFilter(states=ALL)))

        assert (member.step, member.steps, member.attempt, float(member.cost)) == ("ask", 2, 1, 0.25)

    def test_a_group_or_a_state_that_cannot_be_is_refused(self, db: BatchHand) -> None:
        plain: dict[str, Any] = {"states": None, "fingerprint": None, "text": None, "saved": None, "after": 0}
        id = db.batch(1)
        with pytest.raises(ConfigurationError, match="no state 'done'"):
            db.do(figure_commands.members(id, **plain | {"states": ["done"]}, limit=5))
        with pytest.raises(ConfigurationError, match="12 hexadecimal"):
            db.do(figure_commands.members(id, **plain | {"fingerprint": "x"}, limit=5))
