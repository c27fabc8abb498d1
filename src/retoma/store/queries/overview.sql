-- The whole system at a glance. Every count follows an index and stops at a bound.

-- name: look
-- One snapshot. The batches that have not ended are counted by state, and those that ended since a day by their
-- ending. The oldest wait is found by stepping along the lines of waiting jobs, so its cost does not grow with their
-- number; jobs that are held back (a closed lane, a paused queue) do not count. The calls of the day are read only
-- where their money is asked for.
with recursive
line (queue, lane_id) as (
    (select job.queue, job.lane_id
       from retoma.jobs as job
      where job.state = 'queued'
      order by job.queue, job.lane_id
      limit 1)
    union all
    select following.queue, following.lane_id
      from line
     cross join lateral (
           select job.queue, job.lane_id
             from retoma.jobs as job
            where job.state = 'queued'
              and (job.queue, job.lane_id) > (line.queue, line.lane_id)
            order by job.queue, job.lane_id
            limit 1) as following
),
visited as materialized (
    select line.queue, line.lane_id
      from (select line.queue, line.lane_id from line limit %(look)s::integer) as line
      left join retoma.lanes as lane on lane.id = line.lane_id
     where lane.closed_at is null
       and not exists (select from retoma.queues as queue
                        where queue.name = line.queue and
-- include: rests
                      )
),
-- include: strands
state (state, batches) as (
    select batch.state, count(*)
      from retoma.batches as batch
     where batch.finished_at is null and batch.pruned_at is null
     group by batch.state
    union all
    select batch.state, count(*)
      from (select batch.state
              from retoma.batches as batch
             where batch.finished_at > now() - interval '24 hours' and batch.pruned_at is null
             limit %(most)s::integer) as batch
     group by batch.state
),
today as materialized (
    select coalesce(sum(call.cost), 0) as spent,
           coalesce(sum(call.cost) filter (where call.state = 'answered' and call.kind <> 'first'), 0) as again,
           coalesce(sum(call.reserved) filter (where call.state in ('open', 'doubtful')), 0) as doubtful,
           count(*) filter (where call.cost is null and call.cost_basis is not null) as unpriced
      from retoma.calls as call
     where %(money)s::boolean
       and call.asked_at >= date_trunc('day', now(), 'UTC')
)
select (select json_object_agg(state.state, state.batches) from state)::text as batches,
       (select count(*) from retoma.jobs as job where job.state = 'running' and job.worker_id >= 0)::integer as running,
       (select count(*) from (select from retoma.jobs as job
                               where job.state = 'queued' limit %(most)s::integer) as job)::integer as queued,
       (select extract(epoch from now() - min(strand.run_at)) from strand
         where strand.run_at <= now())::float8 as oldest_wait_seconds,
       (select count(*) from (select from retoma.jobs as job
                               where job.state = 'failed' and job.finished_at > now() - interval '24 hours'
                                 and not
-- include: discarded
                               limit %(most)s::integer) as job)::integer as failed_lately,
       (select count(*) from (select from retoma.jobs as job
                               where job.state = 'review' limit %(most)s::integer) as job)::integer as review,
       today.spent as spent_today, today.again as again_today, today.doubtful as doubtful_today,
       today.unpriced as unpriced_today,
       (select count(*) from retoma.workers as worker
         where worker.stopped_at is null and worker.lease_expires_at > now())::integer as workers_alive,
       (select count(*) from retoma.workers as worker
         where worker.stopped_at is null and worker.lease_expires_at <= now())::integer as workers_silent,
       (select count(*) from retoma.queues as queue
         where
-- include: rests
       )::integer as queues_paused,
       (select max(duty.last_at) from retoma.duties as duty) as watched_at,
       %(most)s::integer as counted_to,
       now() as now
  from today;
