"""Every breach that can be planted by hand is found, and a sound database has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from store_batch import STALL, BatchHand, ending, hands
from store_hand import completed

from retoma.commands import batch_actions, verification
from retoma.errors import ConfigurationError
from retoma.model.batch import Breach
from retoma.postgres.connections import run_on_sync
from retoma.store import batches, jobs, verify
from retoma.store.jobs import Blame

Hands = Callable[..., BatchHand]

ENDED = "an ended job has the attempt that ended it"
ALIVE = "no running job without a worker that is alive"
ONE_CHECKPOINT = "a step has one valid checkpoint"
PLACE = "a place of a lane has a job that runs, and one job has one place"
COUNTS = "the counts of a batch are its jobs"
LEFT = "a batch whose jobs have all ended has ended"
STORY = "the story of a batch has no gap"
LANE = "the lane of a batch is open when its jobs may be taken"
IN_LANE = "a job of a batch waits in its lane"
SAVED = "a checkpoint is as it was saved"
WELL = "a batch with a last step counts the jobs that ended well"
OPERATION = "an operation under way is that of its batch"
CONFIGURED = "the newest configuration of a batch is that of its newest cohort"
COHORT = "a job runs under a configuration of its batch"


# What somebody breaks by hand; which invariant says so, and of what.
PLANTED: dict[str, tuple[str, str, str]] = {
    "a completed job without its attempt": (
        "delete from retoma.attempts where job_id = {done} and fence = 1",
        ENDED,
        "job {done}",
    ),
    "a completed job whose attempt says something else": (
        "update retoma.attempts set ending = 'failed' where job_id = {done} and fence = 1",
        ENDED,
        "job {done}",
    ),
    "a running job whose worker fell silent long ago": (
        "update retoma.workers set lease_expires_at = now() - interval '1 minute' where id = {worker}",
        ALIVE,
        "job {held}",
    ),
    "two checkpoints of one step": (
        (
            "insert into retoma.checkpoints select job_id, step, 2::smallint, value, checksum, fingerprint, "
            "input_hash, fence, seconds, saved_at, null, null from retoma.checkpoints where job_id = {held}"
        ),
        ONE_CHECKPOINT,
        "job {held}, step step",
    ),
    "a place whose job has ended": (
        (
            "update retoma.slots set job_id = {done} where (lane_id, place) in (select lane_id, place from "
            "retoma.slots where job_id is null limit 1)"
        ),
        PLACE,
        "job {done}",
    ),
    "a place whose job is gone": (
        (
            "update retoma.slots set job_id = 999999 where (lane_id, place) in (select lane_id, place from "
            "retoma.slots where job_id is null limit 1)"
        ),
        PLACE,
        "job 999999",
    ),
    "a job on two places": (
        (
            "update retoma.slots set job_id = {held} where (lane_id, place) in (select lane_id, place from "
            "retoma.slots where job_id is null limit 1)"
        ),
        PLACE,
        "job {held}",
    ),
    "a batch that counts too few": (
        "update retoma.batches set unfinished = unfinished - 1 where id = {batch}",
        COUNTS,
        "batch {batch}",
    ),
    "a batch that counts failures nobody had": (
        "update retoma.batches set failures = 1 where id = {batch}",
        COUNTS,
        "batch {batch}",
    ),
    "a batch of more jobs than it has": (
        "update retoma.batches set total = total + 1 where id = {batch}",
        COUNTS,
        "batch {batch}",
    ),
    "a job that left its batch": (
        "update retoma.jobs set batch_id = null where id = {held}",
        COUNTS,
        "batch {batch}",
    ),
    "a batch with an event missing in the middle": (
        "delete from retoma.events where batch_id = {batch} and seq = 2",
        STORY,
        "batch {batch}",
    ),
    "a batch without its last event": (
        (
            "delete from retoma.events where batch_id = {batch} and seq = (select max(seq) from retoma.events "
            "where batch_id = {batch})"
        ),
        STORY,
        "batch {batch}",
    ),
    "an event that nobody told": (
        "insert into retoma.events (batch_id, seq, kind, data) values ({batch}, 999, 'jobs', '1')",
        STORY,
        "batch {batch}",
    ),
    "a running batch with a closed lane": (
        "update retoma.lanes set closed_at = now() where name = 'batch:{batch}'",
        LANE,
        "batch {batch}",
    ),
    "a resting batch with an open lane": (
        "update retoma.lanes set closed_at = null where name = 'batch:{resting}'",
        LANE,
        "batch {resting}",
    ),
    "a batch without a lane": (
        "delete from retoma.lanes where name = 'batch:{resting}'",
        LANE,
        "batch {resting}",
    ),
    "a job in another lane": (
        "update retoma.jobs set lane_id = 0 where id = {other}",
        IN_LANE,
        "job {other}",
    ),
    "a last step that counts a job too many": (
        "update retoma.batches set finish_well = finish_well + 1 where id = {finishing}",
        WELL,
        "batch {finishing}",
    ),
    "a batch that names an operation that is over": (
        "update retoma.batches set operation_id = 999999 where id = {batch}",
        OPERATION,
        "batch {batch}",
    ),
    "an operation that its batch does not know": (
        "insert into retoma.operations (batch_id, kind, wanted) values ({batch}, 'cancel', 1)",
        OPERATION,
        "batch {batch}",
    ),
    "a cohort whose configuration was changed": (
        "update retoma.cohorts set configuration = '{{}}' where batch_id = {planned} and number = 2",
        CONFIGURED,
        "batch {planned}",
    ),
    "a job of a cohort that is gone": (
        "delete from retoma.cohorts where batch_id = {planned} and number = 1",
        COHORT,
        "job {begun}",
    ),
    "a job of a cohort that nobody planned": (
        "update retoma.jobs set cohort = 3 where id = {begun}",
        COHORT,
        "job {begun}",
    ),
    "money that no call says": (
        "update retoma.batches set spent = 1 where id = {batch}",
        "what a batch has spent and reserved is in its calls",
        "batch {batch}",
    ),
    "money that is reserved for nothing": (
        "update retoma.batches set reserved = 1 where id = {batch}",
        "what a batch has spent and reserved is in its calls",
        "batch {batch}",
    ),
    "a checkpoint that was changed": (
        "update retoma.checkpoints set value = '2' where job_id = {done}",
        SAVED,
        "job {done}, step step",
    ),
    "a checkpoint with another checksum": (
        "update retoma.checkpoints set checksum = 'x' where job_id = {done}",
        SAVED,
        "job {done}, step step",
    ),
}


@pytest.fixture
def hand(room: str) -> Iterator[Hands]:
    yield from hands(room)


class Scene:
    """A database in which a little of everything has happened."""

    def __init__(self, db: BatchHand) -> None:
        self.db = db
        self.worker = db.hello(lease=1e6)
        self.batch = db.batch(4, at_once=4)
        self.done, self.held, self.other, _ = db.take(self.worker, self.batch, 4)
        for claim in (self.done, self.held):
            db.save(self.worker, claim)
        db.end(self.worker, completed(self.done))
        db.end(self.worker, ending(self.other, "again"))
        self.completed = db.batch(1)
        [last] = [each for each in db.claim(self.worker, 10) if each.batch_id == self.completed]
        db.end(self.worker, completed(last))
        self.resting = db.batch(1)
        db.pause(self.resting)
        self.unsealed = db.open()
        db.fill(self.unsealed, 1)
        self.finishing, _ = db.finished_batch(2)
        [well] = db.take(self.worker, self.finishing, 1)
        db.end(self.worker, completed(well))
        db.pause(self.finishing)
        self.planned = db.batch(2)
        [self.begun] = db.take(self.worker, self.planned, 1)
        db.do(batch_actions.replan(self.planned, configuration={"prompt": "another"}))
        db.pause(self.planned)

    def found(self) -> list[tuple[str, str]]:
        return [(each.invariant, each.what) for each in self.db.breaches()]


@pytest.fixture
def scene(db: BatchHand) -> Scene:
    return Scene(db)


class TestBreaches:
    def test_nothing_in_a_sound_database(self, scene: Scene) -> None:
        assert scene.db.breaches() == []

    def test_nothing_in_an_empty_one(self, db: BatchHand) -> None:
        assert db.breaches() == []

    def test_nothing_after_everything_that_may_happen_to_batches(self, db: BatchHand) -> None:
        worker, id = db.hello(lease=1e6), db.batch(6, max_retries=9)
        db.finish(worker, "completed", "skipped", "review", "failed")
        [claim] = db.take(worker, id)
        db.age(STALL + 1)
        db.stall(id)
        db.resume(id)
        db.pause(id)
        db.resume(id)
        db.retry_failed(id)
        db.end(worker, completed(claim))
        crashing = db.hello()
        claims = db.take(crashing, id, 2)
        db.ask(jobs.bury(crashing, [Blame(claims[0].id, "crashed")], reason="why", error="why"))
        db.cancel(id)
        db.retry_failed(id, cancelled=True)
        db.cancel(id)
        db.restart(id)
        while claims := db.claim(worker, 10):
            db.end(worker, *(completed(each) for each in sorted(claims, key=lambda each: each.id)))
        assert db.is_(id) == "completed"
        assert db.breaches() == []
        db.age(1000)
        db.ask(batches.retire(500.0))
        db.ask(batches.prune(limit=2))

        assert db.breaches() == []

    @pytest.mark.parametrize("breach", PLANTED)
    def test_what_is_planted_is_found_and_nothing_else(self, scene: Scene, breach: str) -> None:
        plant, invariant, what = PLANTED[breach]
        names = {
            "done": scene.done.id, "held": scene.held.id, "other": scene.other.id, "worker": scene.worker,
            "batch": scene.batch, "resting": scene.resting, "finishing": scene.finishing, "planned": scene.planned,
            "begun": scene.begun.id,
        }  # fmt: skip

        scene.db.sql(plant.format(**names))

        found = scene.found()
        assert (invariant, what.format(**names)) in found
        assert {each for each, _ in found} == {invariant}

    def test_a_batch_in_which_nothing_is_left_and_that_goes_on(self, scene: Scene) -> None:
        scene.db.sql(
            "update retoma.batches set was = 'completed', state = 'running', finished_at = null where id = %(id)s",
            id=scene.completed,
        )
        scene.db.sql("update retoma.lanes set closed_at = null where name = 'batch:' || %(id)s", id=scene.completed)

        assert scene.found() == [(LEFT, f"batch {scene.completed}")]

    def test_each_says_what_was_found(self, scene: Scene) -> None:
        scene.db.sql("update retoma.batches set unfinished = 0 where id = %(id)s", id=scene.batch)

        told = {each.invariant: each.found for each in scene.db.breaches()}

        assert told[COUNTS] == "it says 4 jobs, 0 unfinished, 0 failed, and has 4, 3, 0"
        assert told[LEFT] == "it is running"

    def test_a_worker_that_is_silent_for_less_than_the_sweep_is_not_one(self, scene: Scene) -> None:
        scene.db.silence(scene.worker)

        assert scene.db.breaches() == []

    def test_a_running_job_whose_worker_is_gone(self, scene: Scene) -> None:
        scene.db.sql("delete from retoma.workers")

        assert (ALIVE, f"job {scene.held.id}") in scene.found()

    def test_an_open_lane_of_a_batch_that_is_being_filled(self, scene: Scene) -> None:
        scene.db.sql("update retoma.lanes set closed_at = null where name = %(name)s", name=f"batch:{scene.unsealed}")

        assert scene.found() == [(LANE, f"batch {scene.unsealed}")]

    def test_a_job_without_steps_that_was_restarted_is_no_breach(self, db: BatchHand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, completed(claim))
        db.ask(jobs.restart(claim.id))
        db.end(worker, *(completed(each) for each in db.claim(worker)))

        assert db.breaches() == []


class TestHeld:
    def test_only_what_runs_and_sits(self, scene: Scene) -> None:
        scene.db.sql("delete from retoma.attempts")
        scene.db.sql("delete from retoma.workers")

        assert {each.invariant for each in scene.db.ask(verify.held(sweep=30.0))} == {ALIVE}


class TestSpan:
    def test_so_many_jobs_at_a_time_however_their_numbers_lie(self, db: BatchHand) -> None:
        first, second, third = db.enqueue(3)

        assert db.ask(verify.span(0, limit=2)) == [second]
        assert db.ask(verify.span(second, limit=2)) == [third]
        assert db.ask(verify.span(third, limit=2)) == []
        assert db.ask(verify.span(first - 1, limit=1)) == [first]


class TestJobs:
    def test_only_between_two_ids(self, scene: Scene) -> None:
        scene.db.sql("delete from retoma.attempts where fence = 1")
        done = scene.done.id

        assert [each.what for each in scene.db.ask(verify.jobs(done - 1, done))] == [f"job {done}"]
        assert scene.db.ask(verify.jobs(done, done)) == []


class TestSteps:
    def test_also_of_a_job_that_is_gone(self, scene: Scene) -> None:
        scene.db.sql(PLANTED["two checkpoints of one step"][0].format(held=scene.held.id))
        scene.db.sql("update retoma.checkpoints set job_id = 999999 where job_id = %(id)s", id=scene.held.id)

        assert (ONE_CHECKPOINT, "job 999999, step step") in scene.found()
        assert scene.db.ask(verify.steps(0, 999_998)) == []


class TestBatches:
    def test_as_many_as_have_so_many_jobs_together_and_at_least_one(self, db: BatchHand) -> None:
        ids = [db.batch(3) for _ in range(3)]
        db.cancel(ids[1])

        assert db.ask(verify.batches(0, quick=False, limit=1)) == ids[:1]
        assert db.ask(verify.batches(ids[0], quick=False, limit=4)) == ids[1:]
        assert db.ask(verify.batches(0, quick=True, limit=100)) == [ids[0], ids[2]]
        assert db.ask(verify.batches(ids[2], quick=False, limit=4)) == []


class TestOfBatches:
    def test_only_those_that_are_named(self, scene: Scene) -> None:
        scene.db.sql("update retoma.batches set event_seq = 99")

        assert [each.what for each in scene.db.ask(verify.of_batches([scene.batch]))] == [f"batch {scene.batch}"]


class TestCommanded:
    def test_only_those_that_are_named(self, scene: Scene) -> None:
        scene.db.sql("update retoma.batches set operation_id = 99")

        assert [each.what for each in scene.db.ask(verify.commanded([scene.batch]))] == [f"batch {scene.batch}"]


class TestPieces:
    def test_small_pieces_find_the_same_and_any_of_them_can_be_gone_on_from(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for plant in ("a completed job without its attempt", "a job in another lane", "a checkpoint that was changed"):
            scene.db.sql(PLANTED[plant][0].format(done=scene.done.id, other=scene.other.id))
        whole = scene.db.breaches()
        monkeypatch.setattr(verification, "_JOBS", 1)
        monkeypatch.setattr(verification, "_JOBS_OF_BATCHES", 1)
        how = verification.How(sweep_seconds=5.0)
        found, places = [], [""]
        while places[-1] is not None:
            piece = run_on_sync(scene.db.connection, verification.piece(places[-1], how))
            found.append(piece.found)
            places.append(piece.next)

        assert {each for some in found for each in some} == set(whole)
        assert len(whole) == 3
        assert len(places) > 10
        assert run_on_sync(scene.db.connection, verification.piece(places[5], how)).found == found[5]

    def test_a_quick_look_sees_what_lives(self, scene: Scene) -> None:
        scene.db.sql("delete from retoma.attempts where fence = 1")
        assert scene.db.breaches(quick=True) == []
        scene.db.sql("update retoma.batches set unfinished = unfinished - 1 where id = %(id)s", id=scene.batch)

        assert [each.invariant for each in scene.db.breaches(quick=True)] == [COUNTS]

    @pytest.mark.parametrize("place", ["nowhere", "jobs:x", "saved:1", "batches:--"])
    def test_a_place_that_is_none_is_refused(self, db: BatchHand, place: str) -> None:
        with pytest.raises(ConfigurationError):
            run_on_sync(db.connection, verification.piece(place, verification.How(sweep_seconds=5.0)))


class TestSaved:
    def test_page_by_page_in_order_and_only_what_counts(self, scene: Scene) -> None:
        db = scene.db
        db.save(scene.worker, scene.held, "a")
        db.sql("update retoma.checkpoints set set_aside_at = now() where job_id = %(id)s", id=scene.done.id)

        [first] = db.ask(verify.saved(limit=1))
        [second] = db.ask(verify.saved((first.job_id, first.step, first.generation), limit=1))

        assert [(each.job_id, each.step, each.value) for each in (first, second)] == [
            (scene.held.id, "a", "1"), (scene.held.id, "step", "1")
        ]  # fmt: skip
        assert db.ask(verify.saved((second.job_id, second.step, second.generation))) == []

    def test_what_was_set_aside_may_be_as_it_is(self, scene: Scene) -> None:
        scene.db.sql("update retoma.checkpoints set value = '9', set_aside_at = now()")

        assert scene.db.breaches() == []

    def test_more_than_a_page_is_read_to_the_end(self, db: BatchHand) -> None:
        db.sql(
            "insert into retoma.checkpoints (job_id, step, value, checksum, fingerprint, fence)"
            " select number, 'a', '1', 'wrong', 'f', 1 from generate_series(1, 2500) as number"
        )

        found = db.breaches()

        assert found[-1] == Breach(SAVED, "job 2500, step a", "its checksum is another")
        assert len(found) == 2500
