-- How queues move: what waits in each, how fast jobs come and go. Every block visits a bounded number of index entries,
-- so that its cost does not grow with the number of jobs.

-- name: depths
-- What waits in each queue, and how long the oldest job that could run has waited. At most *most* waiting jobs of a
-- queue are counted; where there are more, *more* is true and the counts are lower bounds. The oldest is exact: it is
-- found by steps along the index, one for each lane, pipeline and priority, in at most *lines* lanes.
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
    select line.queue, line.lane_id from line limit %(lines)s::integer
),
-- include: strands
oldest as materialized (
    select strand.queue, min(strand.run_at) as run_at
      from strand
      left join retoma.lanes as lane on lane.id = strand.lane_id
     where strand.run_at <= now()
       and lane.closed_at is null
     group by strand.queue
),
running as materialized (
    select job.queue, count(*) as jobs from retoma.jobs as job where job.state = 'running' group by job.queue
),
served as materialized (
    select served.queue, count(*) as executors
      from retoma.workers as worker
     cross join lateral unnest(worker.queues) as served (queue)
     where worker.stopped_at is null and worker.lease_expires_at > now()
     group by served.queue
),
named as materialized (
    select visited.queue from visited
    union select running.queue from running
    union select served.queue from served
    union select queue.name from retoma.queues as queue
)
select named.queue as name,
       counted.waiting, counted.due, counted.held, coalesce(running.jobs, 0)::bigint as running,
       counted.visited > %(most)s::integer as more,
       extract(epoch from now() - oldest.run_at)::float8 as oldest_due_seconds,
       case when
-- include: rests
            then queue.paused_at end as paused_at,
       case when
-- include: rests
            then queue.paused_reason end as paused_reason,
       coalesce(queue.weight, 1) as weight, coalesce(served.executors, 0)::bigint as executors,
       case when
-- include: rests
            then queue.paused_until end as paused_until
  from named
  left join retoma.queues as queue on queue.name = named.queue
  left join oldest on oldest.queue = named.queue
  left join running on running.queue = named.queue
  left join served on served.queue = named.queue
 cross join lateral (
       select count(*) as visited,
              least(count(*), %(most)s::integer)::bigint as waiting,
              count(*) filter (where line_of.run_at <= now() and lane.closed_at is null) as due,
              count(*) filter (where lane.closed_at is not null) as held
         from (select job.lane_id, job.run_at
                 from retoma.jobs as job
                where job.state = 'queued' and job.queue = named.queue
                limit %(most)s::integer + 1) as line_of
         left join retoma.lanes as lane on lane.id = line_of.lane_id) as counted
 where %(name)s::text is null or named.queue = %(name)s::text
 order by named.queue;

-- name: pace
-- How fast jobs came and ended in the last *seconds*, and how long they waited and ran. Of each queue at most *look*
-- jobs that ended are read, and of all queues together as many of the newest jobs; where that does not reach back for
-- the whole time, the seconds that it does reach are given.
with named as materialized (
    select named.queue from unnest(%(names)s::text[]) as named (queue)
),
newest as materialized (
    select job.queue, job.created_at from retoma.jobs as job order by job.id desc limit %(look)s::integer
),
reach as materialized (
    select case when count(*) < %(look)s::integer then %(seconds)s::float8
                else least(%(seconds)s::float8,
                           greatest(1, extract(epoch from now() - min(newest.created_at))))::float8 end as seconds
      from newest
)
select named.queue as name,
       (select count(*) from newest
         where newest.queue = named.queue
           and newest.created_at > now() - make_interval(secs => %(seconds)s::float8)) as came,
       reach.seconds as came_seconds,
       left_it.jobs as ended,
       left_it.failed,
       case when left_it.jobs < %(look)s::integer then %(seconds)s::float8
            else least(%(seconds)s::float8, greatest(1, extract(epoch from now() - left_it.first_at)))::float8
       end as ended_seconds,
       left_it.wait_median, left_it.wait_most, left_it.run_median, left_it.run_most
  from named
 cross join reach
 cross join lateral (
       select count(*) as jobs,
              count(*) filter (where ended.state = 'failed') as failed,
              min(ended.finished_at) as first_at,
              percentile_cont(0.5) within group (order by ended.waited) as wait_median,
              percentile_cont(0.95) within group (order by ended.waited) as wait_most,
              percentile_cont(0.5) within group (order by ended.ran) as run_median,
              percentile_cont(0.95) within group (order by ended.ran) as run_most
         from (select job.state, job.finished_at,
                      greatest(0, extract(epoch from job.claimed_at - job.run_at))::float8 as waited,
                      greatest(0, extract(epoch from job.finished_at - job.claimed_at))::float8 as ran
                 from retoma.jobs as job
                where job.queue = named.queue
                  and job.finished_at > now() - make_interval(secs => %(seconds)s::float8)
                order by job.finished_at desc
                limit %(look)s::integer) as ended) as left_it
 order by named.queue;

-- name: lanes
-- The lanes of a queue in which something waits or runs, or whose limit somebody set; lane 0 is the line of jobs
-- without a lane. At most *limit* lanes, and at most *most* waiting jobs of each are counted.
with recursive
line (lane_id) as (
    (select job.lane_id
       from retoma.jobs as job
      where job.state = 'queued' and job.queue = %(queue)s::text
      order by job.lane_id
      limit 1)
    union all
    select following.lane_id
      from line
     cross join lateral (
           select job.lane_id
             from retoma.jobs as job
            where job.state = 'queued' and job.queue = %(queue)s::text and job.lane_id > line.lane_id
            order by job.lane_id
            limit 1) as following
),
running as materialized (
    select job.lane_id, count(*) as jobs
      from retoma.jobs as job
     where job.state = 'running' and job.queue = %(queue)s::text
     group by job.lane_id
),
wanted as materialized (
    select found.lane_id
      from ((select line.lane_id from line limit %(limit)s::integer)
            union
            select running.lane_id from running
            union
            (select lane.id from retoma.lanes as lane
              where lane.queue = %(queue)s::text and lane.kept
              order by lane.id
              limit %(limit)s::integer)) as found
     order by found.lane_id
     limit %(limit)s::integer
)
select wanted.lane_id as id, lane.name, lane.at_once, lane.closed_at is not null as closed,
       coalesce(lane.kept, false) as kept,
       least(counted.jobs, %(most)s::integer)::bigint as waiting,
       counted.jobs > %(most)s::integer as more,
       coalesce(running.jobs, 0)::bigint as running,
       extract(epoch from now() - counted.oldest_at)::float8 as oldest_due_seconds
  from wanted
  left join retoma.lanes as lane on lane.id = wanted.lane_id
  left join running on running.lane_id = wanted.lane_id
 cross join lateral (
       select count(*) as jobs, min(line_of.run_at) filter (where line_of.run_at <= now()) as oldest_at
         from (select job.run_at
                 from retoma.jobs as job
                where job.state = 'queued'
                  and job.queue = %(queue)s::text
                  and job.lane_id = wanted.lane_id
                limit %(most)s::integer + 1) as line_of) as counted
 order by wanted.lane_id;

-- name: paused_by
-- Who paused these queues, as the audit has it; the newest row of each.
select paused.name, coalesce(entry.name, entry.who) as who
  from unnest(%(names)s::text[]) as paused (name)
 cross join lateral (
       select audit.name, audit.who
         from retoma.audit as audit
        where audit.object_kind = 'queue'
          and audit.object_id = paused.name
          and audit.action = 'queue.pause'
          and audit.outcome = 'done'
        order by audit.id desc
        limit 1) as entry;
