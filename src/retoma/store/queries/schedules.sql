-- Schedules: jobs that are enqueued by the clock.

-- name: put
-- What a person sets, applies. What a program declares applies while nobody has changed it: a new declaration changes
-- only a schedule that still has the time declared before.
insert into retoma.schedules (name, pipeline, queue, cron, zone, input, priority, max_attempts, timeout_seconds,
                              next_run_at, declared)
values (%(name)s::text, %(pipeline)s::text, %(queue)s::text, %(cron)s::text, %(zone)s::text, %(input)s::json,
        %(priority)s::smallint, %(max_attempts)s::integer, %(timeout)s::real, %(next_run_at)s::timestamptz,
        case when %(declared)s::boolean then %(cron)s::text end)
on conflict (name) do update
   set pipeline = excluded.pipeline,
       queue = excluded.queue,
       cron = case when not %(declared)s::boolean or schedules.cron = schedules.declared
                   then excluded.cron else schedules.cron end,
       zone = case when %(declared)s::boolean then schedules.zone else excluded.zone end,
       input = case when %(declared)s::boolean then schedules.input else excluded.input end,
       priority = excluded.priority,
       max_attempts = excluded.max_attempts,
       timeout_seconds = excluded.timeout_seconds,
       next_run_at = case when schedules.cron = excluded.cron and schedules.zone = excluded.zone
                          then schedules.next_run_at
                          when %(declared)s::boolean and schedules.cron is distinct from schedules.declared
                          then schedules.next_run_at
                          else excluded.next_run_at end,
       declared = coalesce(excluded.declared, schedules.declared)
 where not %(declared)s::boolean
    or schedules.pipeline = excluded.pipeline and schedules.declared is distinct from excluded.declared
returning name;

-- name: now
select now() as now;

-- name: change
update retoma.schedules as schedule
   set cron = %(cron)s::text,
       zone = %(zone)s::text,
       next_run_at = %(next_run_at)s::timestamptz
 where schedule.name = %(name)s::text
returning schedule.name;

-- name: due
select schedule.name, schedule.cron, schedule.zone, schedule.next_run_at, now() as now
  from retoma.schedules as schedule
 where schedule.next_run_at <= now()
   and schedule.paused_at is null
 order by schedule.next_run_at
 limit 100;

-- name: fire
-- Of all the workers that saw this schedule due, one moves it on, and only that one enqueues the job.
with moved as (
    update retoma.schedules as schedule
       set next_run_at = %(next_run_at)s::timestamptz,
           last_run_at = now()
     where schedule.name = %(name)s::text
       and schedule.next_run_at = %(due_at)s::timestamptz
       and schedule.paused_at is null
    returning schedule.*
),
queued as (
    insert into retoma.jobs (queue, pipeline, key, priority, max_attempts, timeout_seconds, input)
    select moved.queue, moved.pipeline,
           'schedule/' || moved.name || '/' || extract(epoch from %(due_at)s::timestamptz)::bigint,
           moved.priority, moved.max_attempts, moved.timeout_seconds, moved.input
      from moved
    on conflict (pipeline, coalesce(batch_id, 0), key) where key is not null do nothing
    returning id, queue
),
noted as (
    insert into retoma.schedule_runs (schedule, job_id) select %(name)s::text, queued.id from queued
),
-- include: forgotten_runs
select queued.id, pg_notify('retoma', queued.queue)::text as hint from queued;

-- name: run_now
-- Runs the schedule now; its next regular time stays.
with wanted as (
    select schedule.* from retoma.schedules as schedule where schedule.name = %(name)s::text
),
queued as (
    insert into retoma.jobs (queue, pipeline, priority, max_attempts, timeout_seconds, input)
    select wanted.queue, wanted.pipeline, wanted.priority, wanted.max_attempts, wanted.timeout_seconds, wanted.input
      from wanted
    returning id, queue
),
noted as (
    insert into retoma.schedule_runs (schedule, job_id, by_hand) select %(name)s::text, queued.id, true from queued
),
-- include: forgotten_runs
select queued.id, pg_notify('retoma', queued.queue)::text as hint from queued;

-- name: pause
update retoma.schedules as schedule
   set paused_at = coalesce(schedule.paused_at, now())
 where schedule.name = %(name)s::text
returning schedule.name;

-- name: resume
update retoma.schedules as schedule
   set paused_at = null,
       next_run_at = %(next_run_at)s::timestamptz
 where schedule.name = %(name)s::text
returning schedule.name;

-- name: remove
with forgotten as (
    delete from retoma.schedule_runs as run where run.schedule = %(name)s::text
)
delete from retoma.schedules as schedule where schedule.name = %(name)s::text returning schedule.name;

-- name: runs
-- The newest jobs that each schedule queued, and what became of them.
select run.schedule, run.job_id, run.at, run.by_hand, job.state, job.finished_at
  from retoma.schedules as schedule
 cross join lateral (
       select run.*
         from retoma.schedule_runs as run
        where run.schedule = schedule.name
        order by run.job_id desc
        limit %(each)s::integer) as run
  left join retoma.jobs as job on job.id = run.job_id
 order by run.schedule, run.job_id desc;

-- name: all
select schedule.name, schedule.pipeline, schedule.queue, schedule.cron, schedule.zone,
       schedule.input::text as input, schedule.priority, schedule.next_run_at, schedule.last_run_at,
       schedule.paused_at, now() as now
  from retoma.schedules as schedule
 order by schedule.name;
