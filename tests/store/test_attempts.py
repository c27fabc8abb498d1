"""How each claim ended: the history that a later success does not erase."""

from __future__ import annotations

from store_hand import Hand, completed, failed

from retoma.store import attempts, jobs
from retoma.store.jobs import Blame


class TestOf:
    def test_every_claim_that_ended_is_told_in_order(self, db: Hand) -> None:
        id = db.one_job(max_attempts=9)
        first, second, third, fourth = (db.hello(each) for each in ("ana", "bia", "caio", "davi"))
        db.end(first, failed(db.claim(first)[0], delay=0))
        db.claim(second)
        db.ask(jobs.bury(second, [Blame(id, "crashed", "parse")], reason="signal 11", error="fault", signal=11))
        db.claim(third)
        db.silence(third)
        db.recover()
        db.end(fourth, completed(db.claim(fourth, suspects=True)[0]))  # it was there when two went down

        told = db.ask(attempts.of(id))

        assert [(each.fence, each.attempt, each.worker, each.ending) for each in told] == [
            (1, 1, "ana", "failed"), (2, 2, "bia", "crashed"), (3, 3, "caio", "lost"), (4, 4, "davi", "completed")
        ]  # fmt: skip

    def test_the_one_who_is_still_at_it_is_not_told(self, db: Hand) -> None:
        claim = db.claimed(db.hello())

        assert db.ask(attempts.of(claim.id)) == []

    def test_an_attempt_outlives_the_row_of_its_worker(self, db: Hand) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, completed(claim))
        db.sql("delete from retoma.workers")

        [told] = db.ask(attempts.of(claim.id))

        assert (told.worker_id, told.worker) == (worker, None)
