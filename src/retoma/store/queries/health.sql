-- The health of the database, for the doctor; and the sessions that block an upgrade.

-- name: look
-- One look at what can make a queue slow or unsafe. It reads statistics and settings, and takes no relevant lock. The
-- oldest snapshot is what prevents vacuum from removing dead rows: a transaction, a replication slot, or a forgotten
-- prepared transaction.
with snapshot as materialized (
    select activity.backend_xmin as xmin
      from pg_stat_activity as activity
     where activity.datname = current_database() and activity.pid <> pg_backend_pid()
    union all
    select slot.xmin from pg_replication_slots as slot
    union all
    select prepared.transaction from pg_prepared_xacts as prepared
),
oldest as materialized (
    select activity.pid,
           nullif(activity.application_name, '') as name,
           extract(epoch from now() - activity.xact_start)::float8 as seconds
      from pg_stat_activity as activity
     where activity.datname = current_database()
       and activity.pid <> pg_backend_pid()
       and activity.xact_start is not null
       and activity.backend_type = 'client backend'
     order by activity.xact_start
     limit 1
)
select current_setting('server_version') as version,
       current_setting('fsync')::boolean as fsync,
       current_setting('full_page_writes')::boolean as full_page_writes,
       current_setting('synchronous_commit') as synchronous_commit,
       current_setting('autovacuum')::boolean as autovacuum,
       pg_is_in_recovery() as standby,
       current_setting('max_connections')::integer as most_connections,
       (select count(*) from pg_stat_activity as activity where activity.backend_type = 'client backend')::integer
           as connections,
       (select oldest.seconds from oldest) as transaction_seconds,
       (select oldest.pid from oldest) as transaction_pid,
       (select oldest.name from oldest) as transaction_name,
       (select coalesce(max(age(snapshot.xmin)), 0) from snapshot)::bigint as snapshot_age,
       coalesce(jobs.n_live_tup, 0) as live_rows,
       coalesce(jobs.n_dead_tup, 0) as dead_rows,
       jobs.last_autovacuum as vacuumed_at,
       (select count(*) from retoma.workers as worker
         where worker.stopped_at is null and worker.lease_expires_at > now()) as workers_alive,
       (select count(*) from retoma.workers as worker
         where worker.stopped_at is null and worker.lease_expires_at <= now()) as workers_silent,
       (select count(*) from retoma.queues as queue
         where
-- include: rests
       ) as queues_paused,
       (select extract(epoch from now() - min(waiting.oldest_at))::float8
          from (select job.queue, job.lane_id, min(job.run_at) as oldest_at
                  from retoma.jobs as job
                 where job.state = 'queued'
                 group by job.queue, job.lane_id) as waiting
          left join retoma.lanes as lane on lane.id = waiting.lane_id
         where waiting.oldest_at <= now()
           and lane.closed_at is null
           and not exists (select from retoma.queues as queue
                            where queue.name = waiting.queue and
-- include: rests
                          )) as oldest_due_seconds,
       (select count(*) from retoma.jobs as job
         where job.state = 'failed'
           and not
-- include: discarded
       ) as failed_jobs
  from (select 1) as here
  left join pg_stat_user_tables as jobs on jobs.schemaname = 'retoma' and jobs.relname = 'jobs';

-- name: holders
-- The lock that a session waits for, and the session that holds it or is queued before it. A prepared transaction has
-- the pid 0. The age of other users' transactions is shown only to accounts that may see it.
select distinct
       case when wanted.locktype = 'advisory' then 'the right to change the tables'
            else coalesce(space.nspname || '.' || class.relname, 'a lock (' || wanted.locktype || ')') end as what,
       blocking.pid,
       nullif(holder.application_name, '') as name,
       holder.state,
       extract(epoch from now() - holder.xact_start)::float8 as seconds
  from pg_locks as wanted
 cross join lateral unnest(pg_blocking_pids(wanted.pid)) as blocking (pid)
  left join pg_class as class on class.oid = wanted.relation
  left join pg_namespace as space on space.oid = class.relnamespace
  left join pg_stat_activity as holder on holder.pid = blocking.pid
 where wanted.pid = %(pid)s::integer and not wanted.granted
 order by blocking.pid;

-- name: overstays
-- The oldest row of each kind that prune should have deleted, found with the indexes that prune itself uses. Calls are
-- kept as long as their job or batch, so only some of the oldest are checked.
with oldest (kind, place, kept_seconds, at) as (
    select 'jobs', 1, %(older_than)s::float8,
           (select job.finished_at
              from retoma.jobs as job
             where job.finished_at is not null and job.batch_id is null
             order by job.finished_at
             limit 1)
    union all
    select 'batches', 2, %(older_than)s::float8,
           (select batch.finished_at
              from retoma.batches as batch
             where batch.finished_at is not null
             order by batch.finished_at
             limit 1)
    union all
    select 'calls', 3, %(older_than)s::float8,
           (select min(call.asked_at)
              from (select call.asked_at, call.job_id, call.batch_id
                      from retoma.calls as call
                     order by call.asked_at, call.id
                     limit 1000) as call
             where not exists (select from retoma.jobs as job where job.id = call.job_id)
               and not exists (select from retoma.batches as batch where batch.id = call.batch_id))
    union all
    select 'replies', 4, 86400, (select min(reply.created_at) from retoma.replies as reply)
    union all
    select 'workers', 5, %(older_than)s::float8, (select min(worker.stopped_at) from retoma.workers as worker)
)
select oldest.kind, oldest.at as oldest_at,
       coalesce(greatest(extract(epoch from now() - oldest.at) - oldest.kept_seconds, 0), 0)::float8 as seconds
  from oldest
 order by oldest.place;

-- name: sizes
-- The tables of every schema that Retoma made, the largest first.
select space.nspname || '.' || class.relname as name,
       pg_total_relation_size(class.oid) as bytes,
       greatest(coalesce(stat.n_live_tup, 0), class.reltuples::bigint, 0) as rows,
       coalesce(stat.n_dead_tup, 0) as dead_rows,
       greatest(stat.last_vacuum, stat.last_autovacuum) as vacuumed_at
  from pg_class as class
  join pg_namespace as space on space.oid = class.relnamespace
  left join pg_stat_user_tables as stat on stat.relid = class.oid
 where class.relkind in ('r', 'p')
   and space.nspname = any (%(schemas)s::text[])
 order by 2 desc, 1
 limit %(limit)s::integer;

-- name: revision
-- The revision of the tables, and the size of the database.
select (select version.version_num from retoma.alembic_version as version limit 1) as revision,
       (select pg_database_size(current_database())) as bytes;
