-- What the tables say for the metrics: one look for a whole installation.

-- name: look
-- Every part is bounded: by the fleet, by the batches that are open, or by %(most)s rows of an index, so that a long
-- queue does not make the look slow. A figure that has reached the bound means "at least". Awake lanes are read before
-- resting ones, because only they have jobs that are due. Reads only, and takes no lock that anybody waits for.
with recursive
named (queue) as (
    (select job.queue from retoma.jobs as job where job.state = 'queued' order by job.queue limit 1)
    union all
    select following.queue
      from named
     cross join lateral (
           select job.queue
             from retoma.jobs as job
            where job.state = 'queued' and job.queue > named.queue
            order by job.queue limit 1) as following
),
waiting as materialized (
    select named.queue, seen.run_at, seen.held
      from (select named.queue from named limit 100) as named
     cross join lateral (
           select job.run_at, lane.held
             from ((select 0::bigint as id, false as held)
                   union all
                   (select lane.id, false
                      from retoma.lanes as lane
                     where lane.queue = named.queue and lane.awake and lane.closed_at is null
                     limit %(most)s::integer)
                   union all
                   (select lane.id, lane.closed_at is not null
                      from retoma.lanes as lane
                     where lane.queue = named.queue and (not lane.awake or lane.closed_at is not null)
                     limit %(most)s::integer)) as lane
            cross join lateral (
                  select job.run_at
                    from retoma.jobs as job
                   where job.state = 'queued' and job.queue = named.queue and job.lane_id = lane.id
                   limit %(most)s::integer) as job
            limit %(most)s::integer) as seen
),
running as materialized (
    select job.id, job.queue, job.pipeline, holder.lease_expires_at < now() as stuck
      from retoma.jobs as job
      left join retoma.workers as holder on holder.id = job.worker_id
     where job.state = 'running'
     limit %(most)s::integer
),
open_batch as materialized (
    select batch.pipeline, batch.state, batch.total, batch.unfinished, batch.failures
      from retoma.batches as batch
     where batch.state in ('running', 'stalled')
     limit %(most)s::integer
),
failed as materialized (
    select job.queue
      from retoma.jobs as job
     where job.state = 'failed'
     order by job.id desc limit %(most)s::integer
),
worker as materialized (
    select served.queue, worker.lease_expires_at > now() as live
      from retoma.workers as worker
     cross join lateral unnest(worker.queues) as served (queue)
     where worker.stopped_at is null
     limit %(most)s::integer
)
-- A queue that is served and empty is told as nought: a graph must not have holes where all is well.
select 'retoma_queue_depth' as name,
       array[waiting.queue, case when waiting.held then 'held' when waiting.run_at <= now() then 'ready'
                                 else 'scheduled' end] as labels,
       sum(waiting.jobs)::float8 as value
  from (select waiting.queue, waiting.run_at, waiting.held, 1 as jobs from waiting
        union all select distinct worker.queue, now(), false, 0 from worker) as waiting
 group by 2
union all
select 'retoma_queue_depth', array[running.queue, 'running'], count(*) from running group by running.queue
union all
select 'retoma_queue_oldest_age_seconds', array[waiting.queue], extract(epoch from now() - min(waiting.run_at))::float8
  from waiting
 where not waiting.held and waiting.run_at <= now()
 group by waiting.queue
union all
select 'retoma_stuck_jobs', array[running.queue], count(*) filter (where running.stuck) from running group by running.queue
union all
select 'retoma_stuck_executions', array[open_batch.pipeline], count(*) filter (where open_batch.state = 'stalled')
  from open_batch
 group by open_batch.pipeline
union all
select 'retoma_jobs_at_checkpoint', array[running.pipeline, regexp_replace(saved.step, '/.*$', '/*')], count(*)
  from (select running.id, running.pipeline from running limit 2000) as running
 cross join lateral (
       select checkpoint.step
         from retoma.checkpoints as checkpoint
        where checkpoint.job_id = running.id and checkpoint.set_aside_at is null
        order by checkpoint.saved_at desc
        limit 1) as saved
 group by 2
union all
select 'retoma_dead_letter_jobs', array[failed.queue], count(*) from failed group by failed.queue
union all
select 'retoma_execution_items', array[open_batch.pipeline, counted.state], sum(counted.jobs)::float8
  from open_batch
 cross join lateral (values ('unfinished', open_batch.unfinished), ('failed', open_batch.failures),
                            ('done', greatest(coalesce(open_batch.total, 0) - open_batch.unfinished
                                              - open_batch.failures, 0))) as counted (state, jobs)
 group by 2
union all
-- A queue that has jobs and no worker has none that is live: an alert must see the zero.
select 'retoma_workers', array[seen.queue, 'live'], count(worker.queue)
  from (select waiting.queue from waiting union select worker.queue from worker) as seen
  left join worker on worker.queue = seen.queue and worker.live
 group by seen.queue
union all
select 'retoma_workers', array[worker.queue, 'silent'], count(*) from worker where not worker.live group by worker.queue
union all
select 'retoma_breaker_state', array[bucket.name],
       case when bucket.opened_until > now() then 2 when bucket.opened_until is not null then 1 else 0 end
  from (select bucket.name, bucket.opened_until
          from retoma.limits as bucket
         order by bucket.opened_until is null, bucket.name
         limit 200) as bucket;
