-- What pages show of a batch: its counts among many, its jobs as letters and as rows, its series for charts.

-- name: standings
-- How far many batches have come, in one statement. Their rows hold exact counts of all jobs, of the unfinished ones
-- and of the failed ones; only running jobs and the rarer endings are counted, by the index. A batch that is being
-- filled has no counts yet, so its jobs are counted.
select batch.id, batch.name, batch.state, batch.reason,
       coalesce(batch.total, open.jobs)::integer as total,
       greatest(coalesce(open.jobs, batch.unfinished) - held.running, 0)::integer as queued,
       held.running,
       greatest(coalesce(batch.total - batch.unfinished, 0) - batch.failures - held.skipped - held.review
                - held.cancelled, 0)::integer as completed,
       held.skipped, batch.failures as failed, held.review, held.cancelled,
       batch.resumes, batch.max_resumes, batch.last_progress_at, batch.last_key,
-- include: paces
       , batch.busy_seconds, batch.spent, batch.budget, batch.stall_seconds, batch.created_at, batch.started_at,
       batch.stalled_at, batch.finished_at, batch.epoch, batch.event_seq, now() as now, batch.unpriced,
-- include: last_step_told
  from retoma.batches as batch
 cross join lateral (
       select count(*) filter (where job.state = 'running')::integer as running,
              count(*) filter (where job.state = 'skipped')::integer as skipped,
              count(*) filter (where job.state = 'review')::integer as review,
              count(*) filter (where job.state = 'cancelled')::integer as cancelled
         from retoma.jobs as job
        where job.batch_id = batch.id
          and job.state in ('running', 'skipped', 'review', 'cancelled')
          and job.id is distinct from batch.finish_job_id) as held
  left join lateral (
       select count(*) as jobs from retoma.jobs as job where job.batch_id = batch.id) as open
    on batch.sealed_at is null
 where batch.id = any (%(ids)s::bigint[])
   and batch.pruned_at is null;

-- name: mosaic
-- One letter for each job, in the order of the inputs.
select coalesce(string_agg(case job.state when 'queued' then 'q' when 'running' then 'r' when 'completed' then 'c'
                                          when 'skipped' then 's' when 'failed' then 'f' when 'review' then 'v'
                                          else 'x' end, '' order by job.id), '') as letters
  from (select job.id, job.state
          from retoma.jobs as job
         where job.batch_id = %(id)s::bigint
-- include: but_the_last_step
         order by job.id
         limit %(limit)s::integer) as job;

-- name: placed
-- The job at a place of the mosaic.
select job.id
  from retoma.jobs as job
 where job.batch_id = %(id)s::bigint
-- include: but_the_last_step
 order by job.id
offset %(place)s::integer
 limit 1;

-- name: series
-- How many attempts ended well and badly in each stretch of time, and how long the good ones took. The stretches are
-- as wide as the whole needs to fit into that many, so the answer stays small.
with span as materialized (
    select batch.started_at as since,
           coalesce((select min(wide.seconds)
                       from unnest(%(widths)s::float8[]) as wide (seconds)
                      where wide.seconds * %(buckets)s::integer > whole.seconds),
                    ceil(whole.seconds / %(buckets)s::integer)) as seconds
      from retoma.batches as batch
     cross join lateral (
           select extract(epoch from coalesce(batch.finished_at, now()) - batch.started_at)::float8 as seconds) as whole
     where batch.id = %(id)s::bigint
       and batch.started_at is not null
),
looked as materialized (
    select job.id
      from retoma.jobs as job
     where job.batch_id = %(id)s::bigint
-- include: but_the_last_step
     order by job.id
     limit %(look)s::integer
),
ended as materialized (
    select floor(extract(epoch from attempt.ended_at - span.since)::float8 / span.seconds)::integer as place,
           attempt.ending, attempt.seconds
      from looked
      join retoma.attempts as attempt on attempt.job_id = looked.id
     cross join span
     where attempt.ending not in ('released', 'postponed', 'waiting')
       and attempt.ended_at >= span.since
)
select span.since + make_interval(secs => ended.place * span.seconds) as at,
       span.seconds,
       count(*) filter (where ended.ending in ('completed', 'skipped', 'review'))::integer as done,
       count(*) filter (where ended.ending not in ('completed', 'skipped', 'review', 'cancelled'))::integer as failed,
       percentile_cont(0.5) within group (order by ended.seconds)
           filter (where ended.ending in ('completed', 'skipped', 'review'))::float8 as median_seconds,
       percentile_cont(0.95) within group (order by ended.seconds)
           filter (where ended.ending in ('completed', 'skipped', 'review'))::float8 as slow_seconds
  from ended
 cross join span
 group by ended.place, span.since, span.seconds
 order by ended.place;

-- name: members
-- Jobs of one batch in the order of their inputs, after a cursor, with how far each has come and what it cost. Each
-- state is read along the index on the jobs of a batch; a filter that is null does not apply. Only the first line of an
-- error is shown.
with found as materialized (
    select job.*
      from unnest(%(states)s::text[]) as wanted (state)
     cross join lateral (
           select job.id, job.key, job.state, job.reason, job.attempt, job.max_attempts, job.run_at, job.claimed_at,
                  job.finished_at, left(split_part(job.error, E'\n', 1), 300) as error
             from retoma.jobs as job
            where job.batch_id = %(id)s::bigint
              and job.state = wanted.state
              and job.id > %(after)s::bigint
-- include: but_the_last_step
              and (%(text)s::text is null
                   or strpos(lower(coalesce(job.key, job.id::text)), lower(%(text)s::text)) > 0)
              and (%(fingerprint)s::text is null or
-- include: fingerprint
                   = %(fingerprint)s::text)
              and (%(saved)s::boolean is null
                   or exists (select from retoma.checkpoints as checkpoint
                               where checkpoint.job_id = job.id and checkpoint.set_aside_at is null) = %(saved)s::boolean)
            order by job.id
            limit %(limit)s::integer) as job
     order by job.id
     limit %(limit)s::integer
)
select found.id, found.key, found.state, found.reason, found.attempt, found.max_attempts, found.run_at,
       found.claimed_at, found.finished_at, found.error, step.last as step, coalesce(step.steps, 0)::integer as steps,
       worked.seconds, coalesce(paid.cost, 0) as cost, coalesce(paid.unpriced, 0)::integer as unpriced
  from found
  left join lateral (
       select count(*) as steps, (array_agg(checkpoint.step order by checkpoint.saved_at desc))[1] as last
         from retoma.checkpoints as checkpoint
        where checkpoint.job_id = found.id and checkpoint.set_aside_at is null) as step on true
  left join lateral (
       select sum(attempt.seconds)::float8 as seconds
         from retoma.attempts as attempt
        where attempt.job_id = found.id) as worked on true
  left join lateral (
       select sum(call.cost) as cost,
              count(*) filter (where call.cost is null and call.cost_basis is not null) as unpriced
         from retoma.calls as call
        where call.job_id = found.id) as paid on true
 order by found.id;
