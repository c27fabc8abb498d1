-- Workers. One row per start of an executor: its identity is new every time, and the label is for people.

-- name: hello
-- An executor that a supervisor starts again is asked to end when its predecessors were.
insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds, lease_expires_at,
                            hint, machine, supervisor, supervisor_started, drain_requested_at, drain_requested_by)
select %(label)s::text, %(host)s::text, %(pid)s::integer, %(version)s::text, %(queues)s::text[],
       %(pipelines)s::text[], %(at_once)s::integer, %(lease)s::real,
       now() + make_interval(secs => %(lease)s::float8), %(hint)s::bigint, %(machine)s::text,
       %(supervisor)s::integer, %(supervisor_started)s::bigint, asked.drain_requested_at, asked.drain_requested_by
  from (select 1) as here
  left join lateral (
       select before.drain_requested_at, before.drain_requested_by
         from retoma.workers as before
        where before.machine = %(machine)s::text
          and before.supervisor = %(supervisor)s::integer
          and before.supervisor_started = %(supervisor_started)s::bigint
          and before.drain_requested_at is not null
        limit 1) as asked on true
returning id;

-- name: heartbeat
-- Every executor of one supervisor in one statement, whatever they hold. A row that does not come back was given up as
-- lost. The counters are totals, so a lost heartbeat loses nothing.
with said as materialized (
    select *
      from unnest(%(ids)s::bigint[], %(pids)s::integer[], %(claimed)s::bigint[], %(completed)s::bigint[],
                  %(failed)s::bigint[], %(retried)s::bigint[], %(recovered)s::bigint[], %(busy)s::float8[],
                  %(memory)s::real[], %(doing)s::text[])
           as said (id, pid, claimed, completed, failed, retried, recovered, busy, memory, doing)
)
update retoma.workers as worker
   set seen_at = now(),
       lease_expires_at = now() + make_interval(secs => worker.lease_seconds),
       pid = said.pid,
       claimed = said.claimed,
       completed = said.completed,
       failed = said.failed,
       retried = said.retried,
       recovered = said.recovered,
       busy_seconds = said.busy,
       memory_megabytes = said.memory,
       doing = said.doing::json,
       missing_since = null,
       spared_at = null
  from said
 where worker.id = said.id
   and worker.stopped_at is null
returning worker.id;

-- name: called_off
-- Which of their jobs these workers must drop, and why: cancelled, released because their batch was paused or failed,
-- or lost to another worker. (The lost ones are found by what the workers say they run.)
select job.id, job.worker_id, job.fence,
       case when job.cancel_requested_at is not null or batch.state = 'cancelled' then 'cancelled'
            else 'released' end as why
  from retoma.jobs as job
  left join retoma.batches as batch on batch.id = job.batch_id
 where job.state = 'running'
   and job.worker_id = any (%(ids)s::bigint[])
   and (job.cancel_requested_at is not null or batch.state in ('paused', 'cancelled', 'failed'))
union all
select believed.id, believed.worker_id, believed.fence, 'lost' as why
  from unnest(%(jobs)s::bigint[], %(holders)s::bigint[], %(fences)s::bigint[]) as believed (id, worker_id, fence)
  left join retoma.jobs as job on job.id = believed.id
                              and job.worker_id = believed.worker_id
                              and job.fence = believed.fence
 where job.id is null;

-- name: asked_to_drain
-- Which of these executors were asked to end.
select worker.id
  from retoma.workers as worker
 where worker.id = any (%(ids)s::bigint[])
   and worker.drain_requested_at is not null;

-- name: drain
-- Asks the executors of a label that are not stopped to take no more jobs and to end. It names rows, not the label: a
-- worker that starts later under the same label is not concerned. Repeated, it changes nothing.
update retoma.workers as worker
   set drain_requested_at = coalesce(worker.drain_requested_at, now()),
       drain_requested_by = coalesce(worker.drain_requested_by, %(by)s::text)
 where worker.label = %(label)s::text
   and worker.stopped_at is null
returning worker.id;

-- name: holding
-- What executors hold now, and the step that each said in its last heartbeat.
select job.id, job.worker_id, job.pipeline, job.queue, job.batch_id, job.key, job.attempt, job.claimed_at,
       doing.step
  from retoma.jobs as job
  join retoma.workers as worker on worker.id = job.worker_id
  left join lateral (
       select told.step
         from json_to_recordset(worker.doing) as told (job bigint, fence bigint, step text)
        where told.job = job.id and told.fence = job.fence
        limit 1) as doing on true
 where job.state = 'running'
   and job.worker_id = any (%(ids)s::bigint[])
 order by job.worker_id, job.claimed_at, job.id
 limit %(limit)s::integer;

-- name: losses
-- How many executors of each label were given up: they were gone, or their lease ended.
select worker.label, count(*) as lost
  from retoma.workers as worker
 where worker.reason in ('gone', 'lost')
 group by worker.label;

-- name: held
-- What a worker holds, to compare with what it knows; read from the index of held jobs, without inputs.
select job.claim_token, job.id, job.batch_id, job.queue, job.lane_id, job.pipeline, job.key, job.attempt,
       job.max_attempts, job.crashes, job.fence, job.signals, job.timeout_seconds, job.correlation_id,
       job.traceparent, '' as input
  from retoma.jobs as job
 where job.state = 'running'
   and job.worker_id = %(worker_id)s::bigint
 order by job.id
 limit %(limit)s::integer;

-- name: stopping
update retoma.workers as worker
   set stopping_at = coalesce(worker.stopping_at, now())
 where worker.id = any (%(ids)s::bigint[])
returning worker.id;

-- name: missing
-- Workers without any open session: nothing holds their advisory lock any more. That is only a hint, so the time since
-- then is noted. *gone* marks those that another machine may give up before their lease ends: missing for some seconds
-- without a heartbeat since, seen through a connection older than their last heartbeat (so the server did not restart),
-- and no worker of a third machine lost at about the same time (so the network did not fail).
with lost as materialized (
    select worker.id, worker.hint, worker.host, worker.machine, worker.supervisor, worker.supervisor_started,
           worker.seen_at, worker.missing_since
      from retoma.workers as worker
     where worker.stopped_at is null
       and worker.hint is not null
       and worker.hint not in (
-- include: held_hints
           )
     order by worker.id
       for no key update skip locked
),
noted as (
    update retoma.workers as worker
       set missing_since = now()
      from lost
     where worker.id = lost.id
       and lost.missing_since is null
)
select lost.id, lost.machine, lost.supervisor, lost.supervisor_started, lost.seen_at,
       coalesce(lost.missing_since < now() - make_interval(secs => %(absent)s::float8)
                and (select own.backend_start from pg_stat_get_activity(pg_backend_pid()) as own) < lost.seen_at
                and not exists (
                    select
                      from retoma.workers as other
                     where other.missing_since between lost.missing_since - interval '5 s'
                                                   and lost.missing_since + interval '5 s'
                       and coalesce(other.machine, other.host) <> coalesce(lost.machine, lost.host)), false) as gone
  from lost;

-- name: give_up
-- Gives up workers that the caller has found to be gone, unless one of them sent a heartbeat or reconnected meanwhile.
-- The next sweep recovers their jobs; for a stopped worker it does not wait for the lease to end.
with lost as materialized (
    select worker.id
      from unnest(%(ids)s::bigint[], %(seen)s::timestamptz[]) as proven (id, seen_at)
      join retoma.workers as worker on worker.id = proven.id and worker.seen_at = proven.seen_at
     where worker.stopped_at is null
       and worker.hint is not null
       and worker.hint not in (
-- include: held_hints
           )
     order by worker.id
       for no key update of worker skip locked
)
update retoma.workers as worker
   set stopped_at = now(),
       lease_expires_at = least(worker.lease_expires_at, now()),
       reason = 'gone'
  from lost
 where worker.id = lost.id
returning worker.id;

-- name: one
select worker.id, worker.label, worker.host, worker.pid, worker.version, worker.queues, worker.pipelines,
       worker.at_once, worker.lease_seconds, worker.started_at, worker.seen_at, worker.lease_expires_at,
       worker.stopping_at, worker.stopped_at, worker.reason,
       worker.stopped_at is null and worker.lease_expires_at > now() as alive,
       worker.claimed, worker.completed, worker.failed, worker.retried, worker.recovered, worker.busy_seconds,
       worker.memory_megabytes, worker.drain_requested_at, worker.drain_requested_by
  from retoma.workers as worker
 where worker.id = %(id)s::bigint;

-- name: all
select worker.id, worker.label, worker.host, worker.pid, worker.version, worker.queues, worker.pipelines,
       worker.at_once, worker.lease_seconds, worker.started_at, worker.seen_at, worker.lease_expires_at,
       worker.stopping_at, worker.stopped_at, worker.reason,
       worker.stopped_at is null and worker.lease_expires_at > now() as alive,
       worker.claimed, worker.completed, worker.failed, worker.retried, worker.recovered, worker.busy_seconds,
       worker.memory_megabytes, worker.drain_requested_at, worker.drain_requested_by
  from retoma.workers as worker
 where (%(gone)s::boolean or worker.stopped_at is null)
   and (%(label)s::text is null or worker.label = %(label)s::text)
   and (%(before)s::bigint is null or worker.id < %(before)s::bigint)
 order by worker.id desc
 limit %(limit)s::integer;

-- name: metrics
-- The counters of every executor with this label, or of the one with this number, and how many running jobs
-- have no live worker.
select coalesce(sum(worker.claimed), 0)::bigint as jobs_claimed,
       coalesce(sum(worker.completed), 0)::bigint as jobs_completed,
       coalesce(sum(worker.failed), 0)::bigint as jobs_failed,
       coalesce(sum(worker.retried), 0)::bigint as jobs_retried,
       coalesce(sum(worker.recovered), 0)::bigint as jobs_recovered,
       coalesce(1000 * sum(worker.busy_seconds) / nullif(sum(worker.completed), 0), 0)::float8 as avg_job_duration_ms,
       (select count(*)
          from retoma.jobs as job
          join retoma.workers as holder on holder.id = job.worker_id
         where job.state = 'running' and holder.lease_expires_at < now()) as stuck_job_count
  from retoma.workers as worker
 where worker.label = %(label)s::text or worker.id = %(id)s::bigint;

-- name: prune
with old as materialized (
    select worker.id
      from retoma.workers as worker
     where worker.stopped_at < now() - make_interval(secs => %(older_than)s::float8)
       and not exists (select from retoma.jobs as job where job.state = 'running' and job.worker_id = worker.id)
     order by worker.id
     limit %(limit)s::integer
       for update skip locked
)
delete from retoma.workers as worker using old where worker.id = old.id
returning worker.id;
