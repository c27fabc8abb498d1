-- Queues, and the lanes inside them.

-- name: pause
-- Until a time, or for some seconds from now, or without an end. A pause whose time has passed begins anew.
insert into retoma.queues (name, paused_at, paused_reason, paused_until)
values (%(name)s::text, now(), %(reason)s::text,
        coalesce(%(until)s::timestamptz, now() + make_interval(secs => %(seconds)s::float8)))
on conflict (name) do update
   set paused_at = case when coalesce(queues.paused_until > now(), true)
                        then coalesce(queues.paused_at, now()) else now() end,
       paused_reason = excluded.paused_reason,
       paused_until = excluded.paused_until
returning name, paused_until as until, paused_until <= now() as over;

-- name: resume
with opened as (
    update retoma.queues as queue
       set paused_at = null,
           paused_reason = null,
           paused_until = null
     where queue.name = %(name)s::text
    returning queue.name
)
select opened.name, pg_notify('retoma', opened.name)::text as hint from opened;

-- name: all
-- How many jobs wait, are due, are held back, and run, by queue; the oldest due job shows how far behind the queue is.
-- Jobs in a closed lane (of a batch that is paused, failed or being filled) are held back, and not due. The counts come
-- from the index of waiting jobs, lane by lane.
with waiting as materialized (
    select job.queue, job.lane_id, count(*) as jobs,
           count(*) filter (where job.run_at <= now()) as due,
           min(job.run_at) as oldest_at
      from retoma.jobs as job
     where job.state = 'queued'
     group by job.queue, job.lane_id
),
counted as (
    select each.queue,
           sum(each.jobs) as waiting,
           sum(each.due) filter (where not each.closed) as due,
           sum(each.jobs) filter (where each.closed) as held,
           sum(each.running) as running,
           min(each.oldest_at) filter (where not each.closed and each.due > 0) as oldest_at
      from (select waiting.queue, waiting.jobs, waiting.due, 0 as running, waiting.oldest_at,
                   lane.closed_at is not null as closed
              from waiting
              left join retoma.lanes as lane on lane.id = waiting.lane_id
            union all
            select job.queue, 0, 0, count(*), null, false
              from retoma.jobs as job
             where job.state = 'running'
             group by job.queue) as each
     group by each.queue
)
select coalesce(counted.queue, queue.name) as name,
       coalesce(counted.waiting, 0)::bigint as waiting,
       coalesce(counted.due, 0)::bigint as due,
       coalesce(counted.running, 0)::bigint as running,
       extract(epoch from now() - counted.oldest_at)::float8 as oldest_due_seconds,
       case when
-- include: rests
            then queue.paused_at end as paused_at,
       case when
-- include: rests
            then queue.paused_reason end as paused_reason,
       coalesce(queue.weight, 1) as weight,
       coalesce(counted.held, 0)::bigint as held,
       case when
-- include: rests
            then queue.paused_until end as paused_until
  from counted
  full join retoma.queues as queue on queue.name = counted.queue
 order by 1;

-- name: lanes
-- Creates lanes that are named for the first time, with their limit. Existing lanes are locked until this transaction
-- ends, because an empty one may be about to be removed.
with kept as materialized (
    select lane.id
      from retoma.lanes as lane
     where lane.queue = %(queue)s::text
       and lane.name = any (%(names)s::text[])
       for key share
),
lane as (
    insert into retoma.lanes (queue, name, at_once)
    select %(queue)s::text, wanted.name, %(at_once)s::integer
      from unnest(%(names)s::text[]) as wanted (name)
     where (select count(*) from kept) >= 0
    on conflict (queue, name) do nothing
    returning id, at_once
)
insert into retoma.slots (lane_id, place)
select lane.id, place from lane cross join generate_series(1, lane.at_once) as place
returning lane_id, place;

-- name: limit_lane
-- Sets a new limit for a lane. Running jobs continue, and count: jobs that started before the lane had a limit have no
-- slot, so a claim leaves as many slots empty. (They get no slot here: a job that ends at this moment would not see
-- it.) Slots above the limit are not given out; free ones are deleted now, taken ones when they become free.
with lane as (
    insert into retoma.lanes (queue, name, at_once, kept)
    values (%(queue)s::text, %(name)s::text, %(at_once)s::integer, true)
    on conflict (queue, name) do update
       set at_once = excluded.at_once,
           kept = true,
           unseated_since = case when excluded.at_once is null then null
                                 when lanes.at_once is null then now()
                                 else lanes.unseated_since end
    returning id, at_once
),
fewer as (
    delete from retoma.slots as slot
     using lane
     where slot.lane_id = lane.id
       and (lane.at_once is null or slot.place > lane.at_once and slot.job_id is null)
),
seats as (
    insert into retoma.slots (lane_id, place)
    select lane.id, seat.place
      from lane
     cross join generate_series(1, lane.at_once) as seat (place)
     where lane.at_once is not null
    on conflict (lane_id, place) do nothing
)
select lane.id from lane;

-- name: mend_slots
-- Frees the slot of a job that no longer runs, whatever failed to free it. The condition includes the row version, so
-- that a slot which was freed and taken again since the read is left alone.
with idle as materialized (
    select slot.ctid as version
      from retoma.slots as slot
     where slot.job_id is not null
       and not exists (select from retoma.jobs as job where job.id = slot.job_id and job.state = 'running')
)
update retoma.slots as slot
   set job_id = null
  from idle
 where slot.ctid = idle.version
returning slot.lane_id, slot.place;

-- name: all_seated
-- Lanes in which no job runs any more that started before the lane had a limit. This waits for a while, because a claim
-- that saw no limit may still be in progress.
update retoma.lanes as lane
   set unseated_since = null
 where lane.unseated_since < now() - interval '1 minute'
   and not exists (select from retoma.jobs as job
                    where job.state = 'running'
                      and job.lane_id = lane.id
                      and not exists (select from retoma.slots as slot where slot.job_id = job.id))
returning lane.id;

-- name: weigh
insert into retoma.queues (name, weight)
values (%(name)s::text, %(weight)s::integer)
on conflict (name) do update set weight = excluded.weight
returning name;

-- name: any_lane
-- Whether there are lanes at all: without any, there is nothing to put to rest.
select exists (select from retoma.lanes) as there;

-- name: idle_lanes
-- From a page of awake lanes, those without ready jobs. They stay locked until the transaction ends. An enqueue into
-- one waits for that; if the enqueue was first, the lane is skipped.
with recursive
visited as materialized (
    select lane.queue, lane.id as lane_id
      from retoma.lanes as lane
     where lane.awake
       and lane.closed_at is null
       and lane.id > %(after)s::bigint
     order by lane.id
     limit %(limit)s::integer
),
-- include: strands
idle as materialized (
    select lane.id
      from visited
      join retoma.lanes as lane on lane.id = visited.lane_id
     where not exists (select from strand
                        where strand.lane_id = visited.lane_id and strand.run_at <= now())
     order by lane.id
       for update of lane skip locked
)
select page.last, idle.id
  from (select max(visited.lane_id) as last from visited) as page
  left join idle on true;

-- name: rest_lanes
-- In the transaction that has locked them, with a new read of the jobs: they rest until the first job is due.
with recursive
visited as materialized (
    select lane.queue, lane.id as lane_id from retoma.lanes as lane where lane.id = any (%(ids)s::bigint[])
),
-- include: strands
first as materialized (
    select visited.lane_id, min(strand.run_at) as run_at
      from visited
      left join strand on strand.lane_id = visited.lane_id
     group by visited.lane_id
)
update retoma.lanes as lane
   set awake = false,
       wake_at = first.run_at
  from first
 where lane.id = first.lane_id
   and coalesce(first.run_at > now(), true)
returning lane.id;

-- name: wake_lanes
-- From a page of resting lanes, those with a job due earlier than their wake-up time, whatever failed to set it.
with recursive
visited as materialized (
    select lane.queue, lane.id as lane_id, lane.wake_at
      from retoma.lanes as lane
     where not lane.awake
       and lane.closed_at is null
       and lane.id > %(after)s::bigint
     order by lane.id
     limit %(limit)s::integer
),
-- include: strands
wrong as materialized (
    select lane.id
      from visited
      join retoma.lanes as lane on lane.id = visited.lane_id
     where exists (select from strand
                    where strand.lane_id = visited.lane_id
                      and strand.run_at < coalesce(visited.wake_at, 'infinity'))
     order by lane.id
       for no key update of lane skip locked
),
woken as (
    update retoma.lanes as lane
       set awake = true,
           wake_at = null
      from wrong
     where lane.id = wrong.id
    returning lane.id
)
select page.last, woken.id
  from (select max(visited.lane_id) as last from visited) as page
  left join woken on true;

-- name: empty_lanes
-- From a page of resting lanes, those without any job and without settings of their own. They stay locked until
-- the transaction ends. (An ended job may be retried in its lane and under its limit. The lane of a batch is
-- deleted with the batch.)
with visited as materialized (
    select lane.id, lane.name, lane.kept
      from retoma.lanes as lane
     where not lane.awake
       and lane.closed_at is null
       and lane.id > %(after)s::bigint
     order by lane.id
     limit %(limit)s::integer
),
vacant as materialized (
    select lane.id
      from visited
      join retoma.lanes as lane on lane.id = visited.id
     where not visited.kept
       and not starts_with(visited.name, 'batch:')
       and not exists (select from retoma.jobs as job
                        where job.lane_id = visited.id and job.lane_id > 0 and job.batch_id is null)
     order by lane.id
       for update of lane skip locked
)
select page.last, vacant.id
  from (select max(visited.id) as last from visited) as page
  left join vacant on true;

-- name: remove_lanes
-- In the transaction that has locked them, with a new read of the jobs.
delete from retoma.lanes as lane
 where lane.id = any (%(ids)s::bigint[])
   and not lane.kept
   and not lane.awake
   and not exists (select from retoma.jobs as job
                    where job.lane_id = lane.id and job.lane_id > 0 and job.batch_id is null)
returning lane.id;

-- name: hint
select pg_notify('retoma', %(name)s::text)::text as hint;
