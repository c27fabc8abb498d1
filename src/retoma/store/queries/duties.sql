-- The watchdog's periodic duties: which are due, and who does them.

-- name: look
-- One cheap check for all duties, and nothing is written while none is due. A duty belongs to the worker that
-- acquires its row. The row of the sweep only records that the database was reachable: what there is to sweep follows
-- from the other tables.
with recursive
-- include: watched
asked as (
    select * from unnest(%(names)s::text[], %(intervals)s::float8[]) as asked (name, seconds)
),
due as materialized (
    select duty.name
      from asked
      join retoma.duties as duty on duty.name = asked.name
     where duty.last_at is null or duty.last_at <= now() - make_interval(secs => asked.seconds)
     order by duty.name
       for no key update of duty skip locked
),
taken as (
    update retoma.duties as duty
       set last_at = now(),
           taken_by = %(taken_by)s::text
      from due
     where duty.name = due.name
    returning duty.name
),
fleet as materialized (
    select worker.hint, worker.lease_expires_at from retoma.workers as worker where worker.stopped_at is null
),
holder (worker_id) as (
    (select job.worker_id
       from retoma.jobs as job
      where job.state = 'running' and exists (select from quiet)
      order by job.worker_id
      limit 1)
    union all
    select following.worker_id
      from holder
     cross join lateral (
           select job.worker_id
             from retoma.jobs as job
            where job.state = 'running' and job.worker_id > holder.worker_id
            order by job.worker_id
            limit 1) as following
)
select array(select taken.name from taken order by taken.name) as rounds,
       exists (select from fleet where fleet.lease_expires_at < now())
           or exists (select from holder
                        join retoma.workers as worker on worker.id = holder.worker_id
                       where worker.stopped_at is not null)
           or exists (select from retoma.jobs as job where job.state = 'queued' and job.expires_at <= now())
           or exists (select from quiet)
              and exists (select from retoma.calls as call
                           where call.state = 'open'
                             and coalesce(call.awaited_until, call.asked_at + interval '10 minutes') < now()) as sweep,
       exists (select from retoma.schedules as schedule
                where schedule.next_run_at <= now() and schedule.paused_at is null) as fire,
       exists (select from fleet
                where fleet.hint is not null
                  and fleet.hint not in (
-- include: held_hints
                      )) as missing,
       (select count(*) from fleet)::integer as workers,
       (select extract(epoch from min(fleet.lease_expires_at) - now()) from fleet)::float8 as next_lease,
       exists (select from swept) as swept;

-- name: leave
-- The duty failed here, so another worker shall do it.
update retoma.duties as duty
   set last_at = null
 where duty.name = %(name)s::text
   and duty.taken_by = %(taken_by)s::text
returning duty.name;

-- name: all
-- When each duty was last done, and by whom.
select duty.name, duty.last_at, duty.taken_by from retoma.duties as duty order by duty.name;
