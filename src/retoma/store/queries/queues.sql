-- Where jobs wait, and the lines inside a queue.

-- name: pause
insert into retoma.queues (name, paused_at, paused_reason)
values (%(name)s::text, now(), %(reason)s::text)
on conflict (name) do update
   set paused_at = coalesce(queues.paused_at, now()),
       paused_reason = excluded.paused_reason
returning name, paused_at;

-- name: resume
with opened as (
    update retoma.queues as queue
       set paused_at = null,
           paused_reason = null
     where queue.name = %(name)s::text
    returning queue.name
)
select opened.name, pg_notify('retoma', opened.name)::text as hint from opened;

-- name: all
-- How many wait, are due, and run, by queue; the oldest job that is due says how far behind the queue is.
select coalesce(counted.queue, queue.name) as name,
       coalesce(counted.waiting, 0) as waiting,
       coalesce(counted.due, 0) as due,
       coalesce(counted.running, 0) as running,
       counted.oldest_due_seconds,
       queue.paused_at,
       queue.paused_reason
  from (select job.queue,
               count(*) filter (where job.state = 'queued') as waiting,
               count(*) filter (where job.state = 'queued' and job.run_at <= now()) as due,
               count(*) filter (where job.state = 'running') as running,
               extract(epoch from now() - min(job.run_at)
                       filter (where job.state = 'queued' and job.run_at <= now()))::float8 as oldest_due_seconds
          from retoma.jobs as job
         where job.state in ('queued', 'running')
         group by job.queue) as counted
  full join retoma.queues as queue on queue.name = counted.queue
 order by 1;

-- name: lanes
-- Lines that are named for the first time come into being here, with the limit they were given.
with lane as (
    insert into retoma.lanes (queue, name, at_once)
    select %(queue)s::text, wanted.name, %(at_once)s::integer
      from unnest(%(names)s::text[]) as wanted (name)
    on conflict (queue, name) do nothing
    returning id, at_once
)
insert into retoma.slots (lane_id, place)
select lane.id, place from lane cross join generate_series(1, lane.at_once) as place
returning lane_id, place;

-- name: limit_lane
-- A new limit for a line. Who runs goes on, and counts: a line that had no limit seats its running jobs first.
-- Places above the limit are not given out; those that are free go, those that are taken go when they are free.
with lane as (
    insert into retoma.lanes (queue, name, at_once)
    values (%(queue)s::text, %(name)s::text, %(at_once)s::integer)
    on conflict (queue, name) do update set at_once = excluded.at_once
    returning id, at_once
),
fewer as (
    delete from retoma.slots as slot
     using lane
     where slot.lane_id = lane.id
       and (lane.at_once is null or slot.place > lane.at_once and slot.job_id is null)
),
unseated as (
    select job.id, job.lane_id, row_number() over (order by job.id) as place
      from lane
      join retoma.jobs as job on job.lane_id = lane.id and job.state = 'running'
     where lane.at_once is not null
       and not exists (select from retoma.slots as slot where slot.lane_id = lane.id)
),
seats as (
    insert into retoma.slots (lane_id, place, job_id)
    select lane.id, seat.place, unseated.id
      from lane
     cross join generate_series(1, greatest(lane.at_once, (select count(*) from unseated))) as seat (place)
      left join unseated on unseated.place = seat.place
     where lane.at_once is not null
    on conflict (lane_id, place) do nothing
)
select lane.id from lane;

-- name: mend_slots
-- A place whose job does not run any more is free, whoever forgot to say so. By its very version: a place that
-- was freed and taken again since we looked is not ours to free.
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

-- name: hint
select pg_notify('retoma', %(name)s::text)::text as hint;
