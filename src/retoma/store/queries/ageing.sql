-- For tests: move the times of one job into the past. No clock is changed.

-- name: age
-- The worker that holds the job becomes silent for as long, and no sparing after an outage applies to it.
with past as materialized (
    select make_interval(secs => %(seconds)s::float8) as span
),
aged as (
    update retoma.jobs as job
       set run_at = job.run_at - past.span,
           expires_at = job.expires_at - past.span,
           cancel_requested_at = job.cancel_requested_at - past.span,
           created_at = job.created_at - past.span,
           claimed_at = job.claimed_at - past.span,
           finished_at = job.finished_at - past.span
      from past
     where %(job_id)s::bigint is null or job.id = %(job_id)s::bigint
    returning job.id, job.worker_id
),
aged_discards as (
    update retoma.discards as discard
       set failed_at = discard.failed_at - past.span,
           discarded_at = discard.discarded_at - past.span
      from past
     where %(job_id)s::bigint is null or discard.job_id = %(job_id)s::bigint
),
woken as (
    -- Lanes that rest until a job is due may have one now.
    update retoma.lanes as lane set awake = true, wake_at = null where not lane.awake
),
aged_checkpoints as (
    update retoma.checkpoints as checkpoint
       set saved_at = checkpoint.saved_at - past.span,
           set_aside_at = checkpoint.set_aside_at - past.span
      from past
     where %(job_id)s::bigint is null or checkpoint.job_id = %(job_id)s::bigint
),
aged_attempts as (
    update retoma.attempts as attempt
       set claimed_at = attempt.claimed_at - past.span,
           ended_at = attempt.ended_at - past.span
      from past
     where %(job_id)s::bigint is null or attempt.job_id = %(job_id)s::bigint
),
aged_workers as (
    update retoma.workers as worker
       set seen_at = worker.seen_at - past.span,
           lease_expires_at = worker.lease_expires_at - past.span,
           spared_at = now()
      from past
     where worker.id in (select aged.worker_id from aged)
)
select aged.id from aged order by aged.id;

-- name: held
-- Jobs that a live worker with open sessions holds: it would lose them if time passed.
select job.id as job_id, worker.id as worker_id, worker.host, worker.pid
  from retoma.jobs as job
  join retoma.workers as worker on worker.id = job.worker_id
 where job.state = 'running'
   and (%(job_id)s::bigint is null or job.id = %(job_id)s::bigint)
   and worker.stopped_at is null
   and worker.hint in (
-- include: held_hints
       )
 order by job.id
 limit 1;

-- name: tally
-- How much is done so far, and how much is left. Maintenance jobs run in a queue of their own and do not count: they
-- begin by the clock, and no test asked for them.
with own as materialized (
    select job.id, job.state, job.finished_at from retoma.jobs as job where job.queue <> %(house)s::text
)
select (select count(*) from own where own.finished_at is not null) as ended,
       (select count(*) from retoma.checkpoints as checkpoint join own on own.id = checkpoint.job_id) as saved,
       (select count(*) from own where own.state in ('queued', 'running')) as left;

-- name: statements
-- The statements that other sessions of this database run now. One whose client was killed still ends, and commits.
select activity.pid, activity.query_start as since
  from pg_stat_activity as activity
 where activity.datname = current_database()
   and activity.backend_type = 'client backend'
   and activity.state = 'active'
   and activity.pid <> pg_backend_pid();
