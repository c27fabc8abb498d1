-- What the measurements ask of the tables themselves: their own clock, not ours.

-- name: preload
-- Many waiting jobs, without the cost of queueing them one by one.
insert into retoma.jobs (queue, pipeline, max_attempts, timeout_seconds, input)
select %(queue)s::text, 'bench-noop', 3, 120, number::text::json
  from generate_series(1, %(jobs)s::integer) as number;

-- name: emptied
-- No jobs at all, and no dead rows: what is measured next finds what was there the last time.
truncate retoma.jobs cascade;

-- name: settled
analyze retoma.jobs;

-- name: newest
-- The job that is claimed last.
select max(job.id) as id from retoma.jobs as job;

-- name: over
-- Whether a job has ended.
select job.finished_at is not null as over from retoma.jobs as job where job.id = %(id)s::bigint;

-- name: left
-- Jobs that have not ended.
select count(*) as jobs from retoma.jobs as job where job.finished_at is null;

-- name: paused_batches
-- Batches of two jobs each that rest: their lanes are closed.
with lane as (
    insert into retoma.lanes (queue, name, closed_at)
    select 'bench-noop', 'paused ' || number, now() from generate_series(1, %(number)s::integer) as number
    returning id
),
batch as (
    insert into retoma.batches (name, pipeline, queue, lane_id, max_resumes, stall_seconds, state, was, total,
                                unfinished, sealed_at)
    select 'paused', 'bench-noop', 'bench-noop', lane.id, 3, 300, 'paused', 'queued', 2, 2, now() from lane
    returning id, lane_id
)
insert into retoma.jobs (batch_id, queue, lane_id, pipeline, max_attempts, timeout_seconds, input)
select batch.id, 'bench-noop', batch.lane_id, 'bench-noop', 3, 120, '1'
  from batch
 cross join generate_series(1, 2);

-- name: sleeping_lanes
-- Lanes whose only job waits for tomorrow, at rest.
with lane as (
    insert into retoma.lanes (queue, name, awake, wake_at)
    select 'bench-noop', 'asleep ' || number, false, now() + interval '1 day'
      from generate_series(1, %(number)s::integer) as number
    returning id
)
insert into retoma.jobs (queue, lane_id, pipeline, max_attempts, timeout_seconds, run_at, input)
select 'bench-noop', lane.id, 'bench-noop', 3, 120, now() + interval '1 day', '1' from lane;

-- name: pace
-- Jobs per second from the first claim to the last ending.
select count(*) as jobs,
       extract(epoch from max(job.finished_at) - min(job.claimed_at))::float8 as seconds
  from retoma.jobs as job
 where job.state = 'completed';

-- name: given_back
-- How long after a moment the first and the last of the abandoned jobs could be claimed again.
select count(*) as jobs,
       extract(epoch from min(attempt.ended_at) - %(since)s::timestamptz)::float8 as first_seconds,
       extract(epoch from max(attempt.ended_at) - %(since)s::timestamptz)::float8 as last_seconds
  from retoma.attempts as attempt
 where attempt.ending = 'crashed';

-- name: clock
select clock_timestamp() as now;

-- name: counts
-- Looked at while it is measured, so it must not read the jobs that wait.
select (select count(*) from retoma.attempts as attempt where attempt.ending = 'completed') as completed,
       (select count(*) from retoma.jobs as job where job.state = 'running') as running;

-- name: written
-- Bytes of write-ahead log so far.
select (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8 as bytes;

-- name: room
-- Bytes on the disk: every table of the database with its indexes and large values, dead rows included.
select sum(pg_total_relation_size(class.oid))::float8 as bytes
  from pg_class as class
  join pg_namespace as space on space.oid = class.relnamespace
 where class.relkind = 'r'
   and space.nspname not in ('pg_catalog', 'information_schema');

-- name: take_all
-- Ten thousand jobs in the hands of one worker.
update retoma.jobs as job
   set state = 'running', worker_id = %(worker_id)s::bigint, fence = 1, attempt = 1, claimed_at = now()
 where job.state = 'queued';

-- name: raw_claim
-- The least that is a claim: what any engine on one PostgreSQL must at least do.
update retoma.jobs as job
   set state = 'running', fence = job.fence + 1, worker_id = 1, claimed_at = now()
  from (select ready.id
          from retoma.jobs as ready
         where ready.queue = 'bench-noop' and ready.state = 'queued' and ready.lane_id = 0
         order by ready.priority, ready.run_at, ready.id
         limit %(limit)s::integer
           for update skip locked) as pick
 where job.id = pick.id
returning job.id, job.input::text;

-- name: raw_end
update retoma.jobs as job
   set state = 'completed', worker_id = null, finished_at = now()
 where job.id = any (%(ids)s::bigint[]) and job.worker_id = 1;

-- name: raw_step
insert into retoma.checkpoints (job_id, step, value, checksum, fingerprint, fence)
values (%(job_id)s::bigint, %(step)s::text, '1', '', '', 1);

-- name: history
-- Jobs that ended long before, as a table that has seen much work holds them.
insert into retoma.jobs (queue, pipeline, state, attempt, max_attempts, fence, timeout_seconds, claimed_at,
                         finished_at, input)
select 'bench-noop', 'bench-noop', 'completed', 1, 3, 1, 120, now(), now(), number::text::json
  from generate_series(1, %(jobs)s::integer) as number;

-- name: half_done
-- A batch in the middle: the larger half of its jobs has ended.
with ended as (
    update retoma.jobs as job
       set state = case when job.id %% 50 = 0 then 'failed' else 'completed' end,
           attempt = 1, fence = 1, claimed_at = now(), finished_at = now()
     where job.batch_id = %(id)s::bigint and job.id %% 5 < 3
    returning job.state
)
update retoma.batches as batch
   set state = 'running', was = 'queued', started_at = now(), last_progress_at = now() - interval '1 hour',
       paced_at = now(), unfinished = batch.total - (select count(*) from ended),
       failures = (select count(*) from ended where ended.state = 'failed')
 where batch.id = %(id)s::bigint;

-- name: all_failed
update retoma.jobs as job
   set state = 'failed', attempt = 1, fence = 1, claimed_at = now(), finished_at = now(), error = 'Error: no answer'
 where job.batch_id = %(id)s::bigint;

-- name: counted_failed
update retoma.batches as batch
   set state = 'completed', was = 'queued', finished_at = now(), unfinished = 0, failures = batch.total
 where batch.id = %(id)s::bigint;

-- name: running_above
-- Which of these jobs run under a later claim than the one given.
select job.id
  from retoma.jobs as job
 where job.id = any (%(ids)s::bigint[]) and job.state = 'running' and job.fence > %(fence)s::bigint;

-- name: claimed_after
-- How long after a moment each of these jobs was claimed.
select extract(epoch from job.claimed_at - %(since)s::timestamptz)::float8 as seconds
  from retoma.jobs as job
 where job.id = any (%(ids)s::bigint[]);

-- name: size
-- What the workers say they have ended, what waits, and what all tables of ours take together.
select (select coalesce(sum(worker.completed), 0)::bigint from retoma.workers as worker) as ended,
       (select count(*) from retoma.jobs as job where job.state = 'queued') as waiting,
       (select count(*) from retoma.jobs) as rows,
       (select sum(pg_total_relation_size(relation.oid))::bigint
          from pg_class as relation
         where relation.relnamespace = 'retoma'::regnamespace and relation.relkind = 'r') as bytes,
       (select count(*) from pg_stat_activity as activity where activity.datname = current_database()) as connections;

-- name: ended_since
-- What ended after a moment, how much of it not well, and how long the last of it took.
select count(*) as jobs,
       count(*) filter (where job.state <> 'completed') as not_completed,
       extract(epoch from max(job.finished_at) - %(since)s::timestamptz)::float8 as seconds
  from retoma.jobs as job
 where job.finished_at > %(since)s::timestamptz;

-- name: pages_since
-- Pages of the documents that were stored after a moment.
select coalesce(sum(document.page_count), 0)::integer as pages
  from retoma.documents as document
 where document.processed_at > %(since)s::timestamptz;

-- name: shelve
-- Documents without files, for chunks that are searched and never read again.
insert into retoma.documents (id, filename, kind, mime_type, size, sha256, blob, page_count, processed_at)
select given.id, given.id || '.txt', 'txt', 'text/plain', 1, given.id::text, given.id::text, 1, now()
  from unnest(%(ids)s::uuid[]) as given (id);

-- name: index_bytes
select pg_relation_size(%(index)s::text::regclass) as bytes;

-- name: index_definition
select pg_get_indexdef(%(index)s::text::regclass) as definition;
