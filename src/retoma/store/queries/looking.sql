-- Searches for jobs. Each scan follows an index, or visits a bounded number of rows.

-- name: some
-- Jobs by id, newest first. A list shows only the first line of an error, and reads no bodies.
select job.id, job.batch_id, job.queue, lane.name as lane, job.pipeline, job.key, job.priority, job.state,
       job.reason, job.run_at, job.expires_at, job.attempt, job.max_attempts, job.crashes, job.fence,
       job.worker_id, worker.label as worker, job.cancel_requested_at, job.timeout_seconds, job.created_at,
       job.claimed_at, job.finished_at, job.correlation_id,
       case when %(content)s::boolean then job.input::text else '' end as input,
       case when %(content)s::boolean then job.output::text end as output,
       case when %(content)s::boolean then job.error else left(split_part(job.error, E'\n', 1), 300) end as error,
       job.traceparent, discard.discarded_at, discard.discarded_by, job.cohort
  from retoma.jobs as job
  left join retoma.lanes as lane on lane.id = job.lane_id
  left join retoma.workers as worker on worker.id = job.worker_id
  left join retoma.discards as discard on discard.job_id = job.id
                                      and discard.failed_at = job.finished_at
                                      and job.state = 'failed'
 where job.id = any (%(ids)s::bigint[])
 order by job.id desc;

-- name: walk
-- Newest first, before a cursor; a filter that is null does not apply. The scan visits a bounded number of
-- rows, and returns where it stopped when there may be more. This avoids an index per filter that every job
-- would have to maintain.
with found as materialized (
    select looked.id
      from (select job.id, job.state, job.queue, job.pipeline
              from retoma.jobs as job
             where job.id < %(before)s::bigint
             order by job.id desc
             limit %(look)s::integer) as looked
     where (%(state)s::text is null or looked.state = %(state)s::text)
       and (%(pipeline)s::text is null or looked.pipeline = %(pipeline)s::text)
       and (%(queue)s::text is null or looked.queue = %(queue)s::text)
     limit %(limit)s::integer
)
select coalesce((select array_agg(found.id order by found.id desc) from found), '{}') as ids,
       case when (select count(*) from found) < %(limit)s::integer
            then (select job.id
                    from retoma.jobs as job
                   where job.id < %(before)s::bigint
                   order by job.id desc
                  offset %(look)s::integer - 1
                   limit 1) end as stopped;

-- name: walk_kind
-- The same to the end of the table, for rare jobs: the newest of each queue and pipeline with ended jobs, by their
-- index; all running jobs; and all waiting jobs, unless they are too many to read. In that case "whole" is false, and
-- the bounded scan finds them, because frequent jobs are near.
with recursive
ended_kind (queue, pipeline) as (
    (select job.queue, job.pipeline
       from retoma.jobs as job
      where job.finished_at is not null
      order by job.queue, job.pipeline
      limit 1)
    union all
    select following.queue, following.pipeline
      from ended_kind
     cross join lateral (
           select job.queue, job.pipeline
             from retoma.jobs as job
            where job.finished_at is not null
              and (job.queue, job.pipeline) > (ended_kind.queue, ended_kind.pipeline)
            order by job.queue, job.pipeline
            limit 1) as following
),
waiting_kind (queue, lane_id, pipeline, number) as (
    (select job.queue, job.lane_id, job.pipeline, 1
       from retoma.jobs as job
      where job.state = 'queued'
      order by job.queue, job.lane_id, job.pipeline
      limit 1)
    union all
    select following.queue, following.lane_id, following.pipeline, waiting_kind.number + 1
      from waiting_kind
     cross join lateral (
           select job.queue, job.lane_id, job.pipeline
             from retoma.jobs as job
            where job.state = 'queued'
              and (job.queue, job.lane_id, job.pipeline)
                  > (waiting_kind.queue, waiting_kind.lane_id, waiting_kind.pipeline)
            order by job.queue, job.lane_id, job.pipeline
            limit 1) as following
     where waiting_kind.number <= %(kinds)s::integer
),
waiting as materialized (
    select job.id
      from waiting_kind
     cross join lateral (
           select job.id
             from retoma.jobs as job
            where job.state = 'queued'
              and job.queue = waiting_kind.queue
              and job.lane_id = waiting_kind.lane_id
              and job.pipeline = waiting_kind.pipeline
            limit %(look)s::integer + 1) as job
     where (%(pipeline)s::text is null or waiting_kind.pipeline = %(pipeline)s::text)
       and (%(queue)s::text is null or waiting_kind.queue = %(queue)s::text)
       and coalesce(%(state)s::text, 'queued') = 'queued'
     limit %(look)s::integer + 1
),
held as materialized (
    select job.id
      from retoma.jobs as job
     where job.state = 'running'
       and job.worker_id >= 0
       and (%(pipeline)s::text is null or job.pipeline = %(pipeline)s::text)
       and (%(queue)s::text is null or job.queue = %(queue)s::text)
       and %(state)s::text is null
),
ended as materialized (
    select job.id
      from ended_kind
     cross join lateral (
           select job.id
             from retoma.jobs as job
            where job.finished_at is not null
              -- As ranges: with two equalities the planner may scan the primary key instead, and find nothing there.
              and (job.queue, job.pipeline, job.id) < (ended_kind.queue, ended_kind.pipeline, %(before)s::bigint)
              and (job.queue, job.pipeline, job.id) > (ended_kind.queue, ended_kind.pipeline, 0)
              -- The other endings are rarer, and have an index of their own.
              and (%(state)s::text is null or job.state = %(state)s::text)
            order by job.queue desc, job.pipeline desc, job.id desc
            limit %(limit)s::integer) as job
     where (%(pipeline)s::text is null or ended_kind.pipeline = %(pipeline)s::text)
       and (%(queue)s::text is null or ended_kind.queue = %(queue)s::text)
       and coalesce(%(state)s::text, 'completed') <> 'queued'
),
found as (
    select each.id
      from (select waiting.id from waiting
            union all
            select held.id from held
            union all
            select ended.id from ended) as each
     where each.id < %(before)s::bigint
     order by each.id desc
     limit %(limit)s::integer
)
select coalesce((select array_agg(found.id order by found.id desc) from found), '{}') as ids,
       (select count(*) from waiting) <= %(look)s::integer
       and (select count(*) from waiting_kind) <= %(kinds)s::integer as whole;

-- name: walk_outcome
-- The same among the rarer endings, by their index.
with found as materialized (
    select looked.id
      from (select job.id, job.queue, job.pipeline
              from retoma.jobs as job
             where job.state = %(state)s::text
               and job.state in ('failed', 'review', 'cancelled', 'skipped')
               and job.id < %(before)s::bigint
             order by job.id desc
             limit %(look)s::integer) as looked
     where (%(pipeline)s::text is null or looked.pipeline = %(pipeline)s::text)
       and (%(queue)s::text is null or looked.queue = %(queue)s::text)
     limit %(limit)s::integer
)
select coalesce((select array_agg(found.id order by found.id desc) from found), '{}') as ids,
       case when (select count(*) from found) < %(limit)s::integer
            then (select job.id
                    from retoma.jobs as job
                   where job.state = %(state)s::text
                     and job.state in ('failed', 'review', 'cancelled', 'skipped')
                     and job.id < %(before)s::bigint
                   order by job.id desc
                  offset %(look)s::integer - 1
                   limit 1) end as stopped;

-- name: walk_running
-- All running jobs: there are no more of them than the workers have places.
with held as materialized (
    select job.id, job.queue, job.pipeline
      from retoma.jobs as job
     where job.state = 'running' and job.worker_id >= 0
),
found as (
    select held.id
      from held
     where held.id < %(before)s::bigint
       and (%(pipeline)s::text is null or held.pipeline = %(pipeline)s::text)
       and (%(queue)s::text is null or held.queue = %(queue)s::text)
     order by held.id desc
     limit %(limit)s::integer
)
select coalesce((select array_agg(found.id order by found.id desc) from found), '{}') as ids,
       null::bigint as stopped;

-- name: walk_batch
-- Jobs of one batch, by the index on its jobs and states. All of them have its queue, and all but its last step its
-- pipeline: so a pipeline that is asked for leaves out the last step, or everything else.
with asked as materialized (
    select %(batch_id)s::bigint as id, batch.finish_job_id, batch.pipeline = %(pipeline)s::text as documents
      from (select) as one
      left join retoma.batches as batch on batch.id = %(batch_id)s::bigint
     where coalesce(batch.queue = %(queue)s::text, true)
       and (coalesce(batch.pipeline = %(pipeline)s::text, true)
            or coalesce(batch.finish ->> 'pipeline' = %(pipeline)s::text, false))
),
found as (
    select job.id
      from asked
     cross join unnest(%(states)s::text[]) as wanted (state)
     cross join lateral (
           select job.id
             from retoma.jobs as job
            where job.batch_id = asked.id
              and job.state = wanted.state
              and job.id < %(before)s::bigint
              and (asked.documents is null or job.id is distinct from asked.finish_job_id)
            order by job.id desc
            limit %(limit)s::integer) as job
     where coalesce(asked.documents, true)
     union all
    select job.id
      from asked
      join retoma.jobs as job on job.id = asked.finish_job_id
     where not asked.documents
       and job.state = any (%(states)s::text[])
       and job.id < %(before)s::bigint
     order by id desc
     limit %(limit)s::integer
)
select coalesce((select array_agg(found.id order by found.id desc) from found), '{}') as ids,
       null::bigint as stopped;

-- name: walk_key
-- A key exists once per pipeline and batch: the scan steps from one of these to the next, not from job to job.
with recursive
line (pipeline, batch_id) as (
    (select job.pipeline, coalesce(job.batch_id, 0)
       from retoma.jobs as job
      where job.key is not null
      order by job.pipeline, coalesce(job.batch_id, 0)
      limit 1)
    union all
    select following.pipeline, following.batch_id
      from line
     cross join lateral (
           select job.pipeline, coalesce(job.batch_id, 0) as batch_id
             from retoma.jobs as job
            where job.key is not null
              and (job.pipeline, coalesce(job.batch_id, 0)) > (line.pipeline, line.batch_id)
            order by job.pipeline, coalesce(job.batch_id, 0)
            limit 1) as following
),
found as (
    select job.id
      from line
      join retoma.jobs as job on job.pipeline = line.pipeline
                             and coalesce(job.batch_id, 0) = line.batch_id
                             and job.key = %(key)s::text
     where (%(pipeline)s::text is null or line.pipeline = %(pipeline)s::text)
       and (%(batch_id)s::bigint is null or line.batch_id = %(batch_id)s::bigint)
       and (%(state)s::text is null or job.state = %(state)s::text)
       and (%(queue)s::text is null or job.queue = %(queue)s::text)
       and job.id < %(before)s::bigint
     order by job.id desc
     limit %(limit)s::integer
)
select coalesce((select array_agg(found.id order by found.id desc) from found), '{}') as ids,
       null::bigint as stopped;

-- name: walk_failed
-- Failed jobs that a filter finds, newest first, before a cursor: those that nobody has settled, or those that somebody
-- has. The scan visits a bounded number of them.
with looked as materialized (
    select job.id
      from retoma.jobs as job
     where job.state = 'failed'
       and job.state in ('failed', 'review', 'cancelled', 'skipped')
       and job.id < %(before)s::bigint
     order by job.id desc
     limit %(look)s::integer
),
found as materialized (
    select job.id
      from looked
      join retoma.jobs as job on job.id = looked.id
     where job.state = 'failed'
       and %(discarded)s::boolean =
-- include: discarded
-- include: fits
     order by job.id desc
     limit %(limit)s::integer
)
select coalesce((select array_agg(found.id order by found.id desc) from found), '{}') as ids,
       case when (select count(*) from found) = %(limit)s::integer then (select min(found.id) from found)
            when (select count(*) from looked) = %(look)s::integer then (select min(looked.id) from looked)
       end as stopped;

-- name: hits
-- What a text may name: a job or a batch by its id, jobs by their correlation id. (Keys are found by their own scan.)
(select 'job' as kind, job.id, 'id' as by, coalesce(job.key, '') as title, job.state, job.pipeline
   from retoma.jobs as job
  where job.id = %(id)s::bigint
    and (%(pipeline)s::text is null or job.pipeline = %(pipeline)s::text))
union all
(select 'batch', batch.id, 'id', batch.name, batch.state, batch.pipeline
   from retoma.batches as batch
  where batch.id = %(id)s::bigint
    and batch.pruned_at is null
    and (%(pipeline)s::text is null or batch.pipeline = %(pipeline)s::text))
union all
(select 'job', job.id, 'correlation', coalesce(job.key, ''), job.state, job.pipeline
   from retoma.jobs as job
  where job.correlation_id = %(text)s::text
    and (%(pipeline)s::text is null or job.pipeline = %(pipeline)s::text)
  order by job.id desc
  limit %(limit)s::integer);

-- name: keyed
-- Jobs whose key is this text, or ends in it after a slash or a hash: the name of a file in its folder. The scan steps
-- from one pipeline and batch to the next for the key itself, and visits the newest jobs for the rest.
select 'job' as kind, found.id, 'key' as by, found.key as title, found.state, found.pipeline
  from (select job.id, job.key, job.state, job.pipeline
          from retoma.jobs as job
         where job.id < %(before)s::bigint
         order by job.id desc
         limit %(look)s::integer) as found
 where (found.key = %(text)s::text
        or right(found.key, length(%(text)s::text) + 1) in ('/' || %(text)s::text, '#' || %(text)s::text))
   and (%(pipeline)s::text is null or found.pipeline = %(pipeline)s::text)
 order by found.id desc
 limit %(limit)s::integer;
