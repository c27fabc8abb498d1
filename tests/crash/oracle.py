"""What really happened: read from logs that are only ever added to, never from what a call returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

# The rows of handlers, and every change of a job's row. When an effect is about to commit, the fence of its job
# is written beside its own: the two differ when a worker that had lost the job was let through.
TABLES = """
create table effects (
    job      bigint not null,
    step     text not null,
    fence    bigint not null,
    pid      integer not null,
    at       timestamptz not null default clock_timestamp()
);
create table commits (job bigint not null, step text not null, fence bigint not null, fence_of_job bigint);
create table changes (
    place    bigint generated always as identity,
    job      bigint not null,
    state    text not null,
    fence    bigint not null,
    attempt  integer not null,
    crashes  integer not null,
    worker   bigint,
    before   text not null,
    at       timestamptz not null default clock_timestamp()
);
create table saves (job bigint not null, step text not null, fence bigint not null, fence_of_job bigint);

create function note_commit() returns trigger language plpgsql as $$
begin
    insert into commits select new.job, new.step, new.fence, job.fence from retoma.jobs as job where job.id = new.job;
    return null;
end $$;
create constraint trigger at_commit after insert on effects deferrable initially deferred
    for each row execute function note_commit();

create function note_change() returns trigger language plpgsql as $$
begin
    insert into changes (job, state, fence, attempt, crashes, worker, before)
    values (new.id, new.state, new.fence, new.attempt, new.crashes, new.worker_id, old.state);
    return null;
end $$;
create trigger every_change after update on retoma.jobs for each row execute function note_change();

create function note_save() returns trigger language plpgsql as $$
begin
    insert into saves
    select new.job_id, new.step, new.fence, job.fence from retoma.jobs as job where job.id = new.job_id;
    return null;
end $$;
create trigger every_save after insert on retoma.checkpoints for each row execute function note_save();
"""


class Mark(NamedTuple):
    """A line of the file."""

    job: int
    fence: int
    attempt: int
    pid: int
    what: str
    step: str


class Oracle:
    """The logs of one test, through a connection of its own."""

    def __init__(self, url: str, file: Path) -> None:
        self.file = file
        self._url = url
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute(TABLES)

    def connect(self) -> None:
        """Anew, after the server was restarted."""
        self.connection.close()
        self.connection = psycopg.connect(self._url, autocommit=True)

    def forget(self) -> None:
        """Begin with empty logs, before anything has been done to anybody."""
        self.file.write_text("")
        self.connection.execute("truncate retoma.jobs, retoma.attempts, changes, effects, commits, saves")

    def close(self) -> None:
        self.connection.close()

    def rows(self, sql: str, *values: Any) -> list[Any]:
        return self.connection.execute(sql, values).fetchall()

    def one(self, sql: str, *values: Any) -> Any:
        row = self.connection.execute(sql, values).fetchone()
        return row[0] if row else None

    def open_transactions(self) -> int:
        """How many sessions of this database have begun a transaction and say nothing."""
        return int(
            self.one(
                "select count(*) from pg_stat_activity"
                " where state = 'idle in transaction' and datname = current_database()"
            )
        )

    # — the file —

    def marks(self, what: str | None = None, *, job: int | None = None) -> list[Mark]:
        found = []
        for line in self.file.read_text().splitlines():
            job_id, fence, attempt, pid, said, step = line.split(" ")
            mark = Mark(int(job_id), int(fence), int(attempt), int(pid), said, step)
            if what in (None, said) and job in (None, mark.job):
                found.append(mark)
        return found

    def begun(self, job: int, step: str) -> int:
        """How often a step was begun."""
        return sum(1 for mark in self.marks("began", job=job) if mark.step == step)

    def again(self) -> int:
        """How often a step was begun that had been begun before."""
        times = Counter((mark.job, mark.step) for mark in self.marks("began"))
        return sum(count - 1 for count in times.values())

    def redone(self) -> list[Mark]:
        """Steps that were begun again after their handler had been told that they are saved."""
        done: set[tuple[int, str]] = set()
        found = []
        for mark in self.marks():
            if mark.what == "done":
                done.add((mark.job, mark.step))
            elif mark.what == "began" and (mark.job, mark.step) in done:
                found.append(mark)
        return found

    # — the tables —

    def states(self, jobs: Sequence[int] | None = None) -> Counter[str]:
        # The house's own jobs come by the clock: whether one is there is chance.
        sql = "select state from retoma.jobs where (%s::bigint[] is null or id = any (%s)) and queue <> 'retoma'"
        wanted = None if jobs is None else list(jobs)
        return Counter(state for (state,) in self.rows(sql, wanted, wanted))

    def state(self, job: int) -> str:
        return str(self.one("select state from retoma.jobs where id = %s", job))

    def all_ended(self) -> bool:
        open_jobs = "select count(*) from retoma.jobs where state in ('queued', 'running') and queue <> 'retoma'"
        return self.one(open_jobs) == 0

    def batch(self, id: int) -> Any:
        """State, reason and how often it was resumed."""
        return self.rows("select state, reason, resumes from retoma.batches where id = %s", id)[0]

    def jobs(self, batch: int, *states: str) -> list[int]:
        """The jobs of a batch, in the order of their documents; those in some states, when they are named."""
        sql = "select id from retoma.jobs where batch_id = %s and (%s::text[] = '{}' or state = any (%s)) order by id"
        return [job for (job,) in self.rows(sql, batch, list(states), list(states))]

    def effects(self) -> Counter[tuple[int, str]]:
        return Counter((job, step) for job, step in self.rows("select job, step from effects"))

    def doubled_effects(self) -> list[tuple[int, str]]:
        return [each for each, count in self.effects().items() if count > 1]

    def doubled_saves(self) -> list[tuple[int, str]]:
        return self.rows("select job, step, count(*) from saves group by 1, 2 having count(*) > 1")

    def stale_writes(self) -> list[Any]:
        """Rows and checkpoints that were let in after somebody else had claimed the job."""
        sql = "select * from commits where fence <> fence_of_job"
        return self.rows(f"{sql} union all select * from saves where fence <> fence_of_job")

    def after_the_end(self) -> list[Any]:
        """Claims of jobs that had ended, and fences that fell."""
        return self.rows(
            "select * from (select *, lag(fence) over (partition by job order by place) as fence_before from changes)"
            " as change where fence < fence_before"
            " or (before not in ('queued', 'running') and state in ('queued', 'running'))"
        )

    def claims(self, job: int) -> int:
        return int(self.one("select count(*) from changes where job = %s and state = 'running'"
                            " and before = 'queued'", job))  # fmt: skip

    def lost(self) -> int:
        """How many claims ended with the loss of their worker, those without blame included."""
        gone = "ending in ('lost', 'crashed', 'timeout') or reason = 'beside'"
        return int(self.one(f"select count(*) from retoma.attempts where {gone}"))

    def attempts(self, job: int) -> list[Any]:
        sql = (
            "select ending, attempt, step, signal, error, reason from retoma.attempts where job_id = %s order by fence"
        )
        return self.rows(sql, job)

    def job(self, job: int) -> Any:
        row = self.connection.execute(
            "select state, reason, attempt, crashes, fence, error from retoma.jobs where id = %s", (job,)
        ).fetchone()
        assert row is not None
        return row

    def queued_again(self, jobs: Sequence[int]) -> list[float]:
        """When each of the jobs first became claimable again, in seconds of the machine's clock."""
        sql = "select min(extract(epoch from at))::float8 from changes where job = any (%s)"
        again = f"{sql} and before = 'running' and state = 'queued' group by job"
        return [at for (at,) in self.rows(again, list(jobs))]

    def nothing_is_wrong(self, *, revived: bool = False) -> None:
        """What must hold at the end of every test, whatever was done to the workers; *revived* when somebody asked
        for jobs that had ended.
        """
        assert not self.doubled_effects()
        assert not self.doubled_saves()
        assert not self.stale_writes()
        assert revived or not self.after_the_end()
        assert not self.redone()
