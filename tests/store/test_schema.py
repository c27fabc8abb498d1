"""What the tables refuse, and the view for programs that were written to the worker scale-out document."""

from __future__ import annotations

from contextlib import suppress

import psycopg
import pytest
from store_hand import Hand, completed, failed

from retoma.model.job import Ended
from retoma.store import jobs

IMPOSSIBLE = {
    "a running job that nobody holds": "update retoma.jobs set state = 'running'",
    "a waiting job that somebody holds": "update retoma.jobs set worker_id = 1",
    "a finished job that never finished": "update retoma.jobs set state = 'completed'",
    "a waiting job that has finished": "update retoma.jobs set finished_at = now()",
    "a held job that has finished": "update retoma.jobs set state = 'running', worker_id = 1, finished_at = now()",
    "a finished job that somebody holds": (
        "update retoma.jobs set state = 'failed', finished_at = now(), worker_id = 1"
    ),
    "a state without a name": "update retoma.jobs set state = 'stuck'",
    "a job without a queue": "update retoma.jobs set queue = null",
    "two jobs of one key": (
        "insert into retoma.jobs (queue, pipeline, key, max_attempts, timeout_seconds, input)"
        " select queue, pipeline, 'a', 1, 1, '1' from retoma.jobs, generate_series(1, 2)"
    ),
    "more attempts than the job may have": "update retoma.jobs set attempt = max_attempts + 1",
    "a waiting job without attempts left": "update retoma.jobs set attempt = max_attempts",
    "fewer attempts than none": "update retoma.jobs set attempt = -1",
    "a job that may never be tried": "update retoma.jobs set max_attempts = 0",
    "two endings of one claim": (
        "insert into retoma.attempts (job_id, fence, attempt, worker_id, ending, claimed_at)"
        " select 1, 1, 1, 1, 'completed', now() from generate_series(1, 2)"
    ),
    "two values of one generation": (
        "insert into retoma.checkpoints (job_id, step, generation, value, checksum, fingerprint, fence)"
        " select 1, 'a', 1, '1', 'c', 'f', 1 from generate_series(1, 2)"
    ),
    "a checkpoint that is not json": (
        "insert into retoma.checkpoints (job_id, step, generation, value, checksum, fingerprint, fence)"
        " values (1, 'a', 1, '{', 'c', 'f', 1)"
    ),
    "two words under one name": (
        "insert into retoma.signals (job_id, name, value) select 1, 'a', '1' from generate_series(1, 2)"
    ),
    "a lane that lets nobody run": "insert into retoma.lanes (queue, name, at_once) values ('q', 'a', 0)",
    "two lanes of one name": ("insert into retoma.lanes (queue, name) select 'q', 'a' from generate_series(1, 2)"),
    "a place in a lane that is not there": "insert into retoma.slots (lane_id, place) values (999999999, 1)",
    "one place for two": (
        "with lane as (insert into retoma.lanes (queue, name) values ('q', 'a') returning id)"
        " insert into retoma.slots (lane_id, place) select lane.id, 1 from lane, generate_series(1, 2)"
    ),
    "two schedules of one name": (
        "insert into retoma.schedules (name, pipeline, queue, cron, zone, input, max_attempts, timeout_seconds,"
        " next_run_at) select 'a', 'p', 'q', '* * * * *', 'UTC', '1', 1, 1, now() from generate_series(1, 2)"
    ),
}


class TestConstraints:
    @pytest.mark.parametrize("what", IMPOSSIBLE)
    def test_the_tables_refuse(self, db: Hand, what: str) -> None:
        db.one_job()

        with pytest.raises((psycopg.IntegrityError, psycopg.DataError)):
            db.sql(IMPOSSIBLE[what])

    @pytest.mark.parametrize("attempts", [0, -1])
    def test_a_retry_cannot_leave_a_waiting_job_without_attempts(self, db: Hand, attempts: int) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, failed(claim, again=False))

        with suppress(psycopg.IntegrityError):
            db.ask(jobs.retry([claim.id], attempts=attempts))

        job = db.job(claim.id)
        assert job.state == "failed" or job.attempt < job.max_attempts


class TestQueueJobs:
    COLUMNS = (
        "jobType", "status", "payload", "attempts", "maxAttempts", "lockedBy", "lockedAt", "lockExpiresAt",
        "lastHeartbeatAt", "processingStartedAt", "processedAt", "lastError", "createdAt",
    )  # fmt: skip

    def test_it_has_the_seed_s_own_columns(self, db: Hand) -> None:
        names = [each[0] for each in db.sql(
            "select column_name from information_schema.columns"
            " where table_schema = 'retoma' and table_name = 'queue_jobs'"
        )]  # fmt: skip

        assert set(self.COLUMNS) <= set(names)

    def test_a_waiting_job_is_pending_and_unlocked(self, db: Hand) -> None:
        db.one_job(max_attempts=4)

        [row] = db.sql(
            'select status, attempts, "maxAttempts", "lockedBy", "lockedAt", "lockExpiresAt", "lastHeartbeatAt",'
            ' "processingStartedAt", "processedAt" from retoma.queue_jobs'
        )

        assert row == ("pending", 0, 4, None, None, None, None, None, None)

    def test_a_running_job_is_processing_and_locked_by_its_worker(self, db: Hand) -> None:
        worker = db.hello("worker-1")
        claim = db.claimed(worker)
        job = db.job(claim.id)
        [(seen, expires)] = db.sql("select seen_at, lease_expires_at from retoma.workers")

        [row] = db.sql(
            'select status, attempts, "jobType", "lockedBy", "lockedAt", "lockExpiresAt", "lastHeartbeatAt",'
            ' "processingStartedAt", "processedAt", payload from retoma.queue_jobs'
        )

        assert row == (
            "processing", 1, "read", "worker-1", job.claimed_at, expires, seen, job.claimed_at, None, 0
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("ending", "status"),
        [
            ("completed", "completed"),
            ("skipped", "completed"),
            ("review", "completed"),
            ("failed", "failed"),
            ("cancelled", "failed"),
        ],
    )
    def test_an_ended_job_speaks_the_seed_s_words_and_its_lock_is_cleared(
        self, db: Hand, ending: str, status: str
    ) -> None:
        worker = db.hello()
        claim = db.claimed(worker)
        db.end(worker, Ended(claim, ending, error="why"))

        [row] = db.sql(
            'select status, "lockedBy", "lockedAt", "lockExpiresAt", "lastHeartbeatAt", "lastError",'
            ' "processedAt" is not null from retoma.queue_jobs'
        )

        assert row == (status, None, None, None, None, "why", True)

    def test_a_failed_attempt_clears_the_lock_and_counts(self, db: Hand) -> None:
        worker = db.hello()
        db.end(worker, failed(db.claimed(worker)))

        assert db.sql('select status, attempts, "lockedBy", "lockedAt" from retoma.queue_jobs') == [
            ("pending", 1, None, None)
        ]

    def test_the_proof_of_the_seed_counts_each_job_once(self, db: Hand) -> None:
        workers = [db.hello(f"worker-{each}") for each in range(3)]
        db.enqueue(100)
        while claims := [(worker, each) for worker in workers for each in db.claim(worker, 7)]:
            for worker, claim in claims:
                db.end(worker, completed(claim))

        assert db.sql("select status, count(*) from retoma.queue_jobs group by status") == [("completed", 100)]
