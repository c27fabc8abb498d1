-- Time passes for one job, in tests: its past is moved further back, and no clock is touched.

-- name: age
-- A worker that holds the job has been silent just as long. A server that has just started gives every lease a
-- grace; where the lease is over, that too counts as past.
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
           lease_seconds = case when worker.lease_expires_at - past.span < now()
                                then least(worker.lease_seconds,
                                           extract(epoch from now() - pg_postmaster_start_time())::real / 2)
                                else worker.lease_seconds end
      from past
     where worker.id in (select aged.worker_id from aged)
)
select aged.id from aged order by aged.id;

-- name: tally
-- How much has been done so far, and how much is left.
select (select count(*) from retoma.jobs as job where job.finished_at is not null) as ended,
       (select count(*) from retoma.checkpoints) as saved,
       (select count(*) from retoma.jobs as job where job.state in ('queued', 'running')) as left;
