-- Searches for jobs. Each scan follows an index, or visits a bounded number of rows.

-- name: some
-- Jobs by id, newest first. A list shows only the first line of an error, and reads no bodies.
select job.id, job.batch_id, job.queue, lane.name as lane, job.pipeline, job.key, job.priority, job.state,
       job.reason, job.run_at, job.expires_at, job.attempt, job.max_attempts, job.crashes, job.fence,
       job.worker_id, worker.label as worker, job.cancel_requested_at, job.timeout_seconds, job.created_at,
       job.claimed_at, job.finished_at, job.correlation_id,
       case when %(content)s::boolean then job.input::text else '' end as input,
       case when %(content)s::boolean then job.output::text end as output,
       case when %(content)s::boolean then job.error else left(split_part(job.error, E'\n', 1), 300) end as error
  from retoma.jobs as job
  left join retoma.lanes as lane on lane.id = job.lane_id
  left join retoma.workers as worker on worker.id = job.worker_id
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
-- Jobs of one batch, by the index on its jobs and states. All of them have its pipeline and its queue.
with found as (
    select job.id
      from unnest(%(states)s::text[]) as wanted (state)
     cross join lateral (
           select job.id
             from retoma.jobs as job
            where job.batch_id = %(batch_id)s::bigint
              and job.state = wanted.state
              and job.id < %(before)s::bigint
            order by job.id desc
            limit %(limit)s::integer) as job
     where not exists (select
                         from retoma.batches as batch
                        where batch.id = %(batch_id)s::bigint
                          and (batch.pipeline <> %(pipeline)s::text or batch.queue <> %(queue)s::text))
     order by job.id desc
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
