-- The life of a job. Every write of a worker names the job and the fence of its claim: when no row comes back, another
-- worker holds the job. Rows are locked in id order, so that two statements never deadlock.

-- name: enqueue
-- A key that exists already inserts nothing: the second part returns its job. (A key that a concurrent transaction is
-- writing is in neither part; by_keys finds it afterwards.) Ids follow the order of the inputs. Rows are written in key
-- order, so that two writers of the same keys never deadlock. A job whose lane was removed concurrently is not queued,
-- and has no row in the result.
with asked as materialized (
    select nextval('retoma.jobs_id_seq') as id, asked.input, asked.key, asked.lane, asked.correlation_id
      -- In a sub-select, so that the planner cannot count the elements: one generic plan then serves every call.
      from unnest((select %(inputs)s::text[]), (select %(keys)s::text[]), (select %(lanes)s::text[]),
                  (select %(correlation_ids)s::text[]))
           as asked (input, key, lane, correlation_id)
),
into_lane as materialized (
    select lane.id as lane_id, lane.name
      from retoma.lanes as lane
     where lane.queue = %(queue)s::text
       and lane.name in (select asked.lane from asked)
),
-- include: rouse
,
queued as (
    insert into retoma.jobs (id, batch_id, queue, lane_id, pipeline, key, priority, run_at, expires_at,
                             max_attempts, timeout_seconds, correlation_id, traceparent, input)
    overriding system value
    select asked.id,
           %(batch_id)s::bigint,
           %(queue)s::text,
           case when asked.lane is null then 0 else lane.lane_id end,
           %(pipeline)s::text,
           asked.key,
           %(priority)s::smallint,
           coalesce(%(run_at)s::timestamptz, now() + make_interval(secs => %(delay)s::float8)),
           coalesce(%(run_at)s::timestamptz, now() + make_interval(secs => %(delay)s::float8))
               + make_interval(secs => %(expires)s::float8),
           %(max_attempts)s::integer,
           %(timeout)s::real,
           coalesce(asked.correlation_id, %(correlation_id)s::text),
           %(traceparent)s::text,
           asked.input::json
      from asked
      left join (select into_lane.lane_id, into_lane.name
                   from into_lane
                   join lane_held on lane_held.id = into_lane.lane_id) as lane on lane.name = asked.lane
     where asked.lane is null or lane.lane_id is not null
     order by asked.key, asked.id
    on conflict (pipeline, coalesce(batch_id, 0), key) where key is not null do nothing
    returning id, key, state
),
hint as (
    select pg_notify('retoma', %(queue)s::text) where %(notify)s::boolean and exists (select from queued)
)
select queued.id, queued.key, queued.state, true as new
  from queued
  left join hint on true
union all
select job.id, job.key, job.state, false as new
  from asked
  join retoma.jobs as job on job.pipeline = %(pipeline)s::text
                         and coalesce(job.batch_id, 0) = coalesce(%(batch_id)s::bigint, 0)
                         and job.key = asked.key
 where asked.key is not null
   and not exists (select from queued where queued.key = asked.key)
 order by 1;

-- name: enqueue_one
-- The same for one job without a lane, whose columns need no arrays. A key that exists already, or that a concurrent
-- transaction is writing, returns no row: by_keys finds its job afterwards. The hint is part of the returned row, so it
-- is sent only when a row was inserted.
insert into retoma.jobs (batch_id, queue, pipeline, key, priority, run_at, expires_at,
                         max_attempts, timeout_seconds, correlation_id, traceparent, input)
values (%(batch_id)s::bigint,
        %(queue)s::text,
        %(pipeline)s::text,
        %(key)s::text,
        %(priority)s::smallint,
        coalesce(%(run_at)s::timestamptz, now() + make_interval(secs => %(delay)s::float8)),
        coalesce(%(run_at)s::timestamptz, now() + make_interval(secs => %(delay)s::float8))
            + make_interval(secs => %(expires)s::float8),
        %(max_attempts)s::integer,
        %(timeout)s::real,
        %(correlation_id)s::text,
        %(traceparent)s::text,
        %(input)s::text::json)
on conflict (pipeline, coalesce(batch_id, 0), key) where key is not null do nothing
returning id, key, state, true as new,
          case when %(notify)s::boolean then pg_notify('retoma', queue) end as hint;

-- name: by_keys
select job.id, job.key, job.state, false as new
  from retoma.jobs as job
 where job.pipeline = %(pipeline)s::text
   and coalesce(job.batch_id, 0) = coalesce(%(batch_id)s::bigint, 0)
   and job.key = any (%(keys)s::text[])
 order by job.id;

-- name: claim
-- Rows that another worker has locked are skipped: two workers never claim the same job and never wait for each other.
-- Queues take turns by weight; within a queue its lanes take turns, starting after the lane served last. Only awake
-- lanes are visited, and only lanes with ready jobs count in the share. Jobs that must run alone are left to
-- claim_alone, and the jobs behind them are still found. The pick is materialised, so that no plan can exceed the
-- limit. Each job is claimed one microsecond after the one before, so that the order in which they start is recorded.
-- One row comes back even when nothing is ready: it names the queues that have more lanes than were visited.
with recursive
-- include: open_queue
due_lane as materialized (
    -- Resting lanes whose wake-up time has come.
    select open_queue.queue, lane.id
      from open_queue
     cross join lateral (
           select lane.id
             from retoma.lanes as lane
            where lane.queue = open_queue.queue
              and lane.closed_at is null
              and not lane.awake
              and lane.wake_at <= now()
            order by lane.wake_at
            limit 16) as lane
),
circle as materialized (
    -- Upward from the starting lane, then from the lowest lane up to it.
    select open_queue.queue, lane.lane_id, open_queue.after_lane, open_queue.turned, open_queue.weight,
           row_number() over (partition by open_queue.queue order by lane.half, lane.lane_id) as step,
           open_queue.most
      from open_queue
     cross join lateral (
           (select lane.id as lane_id, 1 as half
              from retoma.lanes as lane
             where lane.queue = open_queue.queue
               and lane.awake
               and lane.closed_at is null
               and lane.id > open_queue.after_lane
             order by lane.id
             limit open_queue.most + 1)
           union all
           select 0, 2
           union all
           (select lane.id, 3
              from retoma.lanes as lane
             where lane.queue = open_queue.queue
               and lane.awake
               and lane.closed_at is null
               and lane.id <= open_queue.after_lane
             order by lane.id
             limit open_queue.most + 1)) as lane
),
visited as materialized (
    select circle.queue, circle.lane_id, circle.after_lane, circle.turned, circle.weight, circle.step
      from circle
     where circle.step <= circle.most
    union all
    select due_lane.queue, due_lane.id, open_queue.after_lane, open_queue.turned, open_queue.weight, null
      from due_lane
      join open_queue on open_queue.queue = due_lane.queue
),
-- include: strands
-- include: lines
-- include: take
,
-- include: start
,
woken as materialized (
    -- Lock lanes after batches: a statement that pauses a batch locks the batch first, then its lane.
    select lane.id
      from retoma.lanes as lane
     where lane.id in (select due_lane.id from due_lane)
       and (select count(*) from starting) >= 0
     order by lane.id
       for no key update skip locked
),
roused as (
    update retoma.lanes as lane
       set awake = true,
           wake_at = null
      from woken
     where lane.id = woken.id
),
cut as (
    select array_agg(last.queue) as queues, array_agg(last.lane_id) as lanes
      from circle as last
     where last.step = last.most
       and exists (select from circle as beyond where beyond.queue = last.queue and beyond.step > beyond.most)
)
select claimed.id, claimed.batch_id, claimed.queue, claimed.lane_id, claimed.pipeline, claimed.key,
       claimed.attempt, claimed.max_attempts, claimed.crashes, claimed.fence, claimed.signals,
       claimed.timeout_seconds, claimed.correlation_id, claimed.traceparent, claimed.input,
       batch.epoch as batch_epoch, claimed.cohort, claimed.priority, claimed.run_at, claimed.step, claimed.turned,
       cut.queues as cut_queues, cut.lanes as cut_lanes, (select count(*) from line) as lines
  from cut
  left join claimed on true
  left join retoma.batches as batch on batch.id = claimed.batch_id
 order by claimed.place;

-- name: claim_alone
-- Jobs that must run alone, from lines in which one of them is next.
with recursive
-- include: open_queue
visited as materialized (
    select distinct open_queue.queue, job.lane_id, open_queue.after_lane, open_queue.turned, open_queue.weight,
           null::bigint as step
      from open_queue
      join retoma.jobs as job on job.queue = open_queue.queue
     where job.state = 'queued'
       and (job.alone or job.crashes >= 2)
       and job.pipeline = any (%(pipelines)s::text[])
       and job.run_at <= now()
       and (job.expires_at is null or job.expires_at > now())
       and not
-- include: ahead
),
-- include: strands
-- include: lines
-- include: take
,
-- include: start
select claimed.id, claimed.batch_id, claimed.queue, claimed.lane_id, claimed.pipeline, claimed.key,
       claimed.attempt, claimed.max_attempts, claimed.crashes, claimed.fence, claimed.signals,
       claimed.timeout_seconds, claimed.correlation_id, claimed.traceparent, claimed.input,
       batch.epoch as batch_epoch, claimed.cohort, claimed.priority, claimed.run_at, claimed.step, claimed.turned
  from claimed
  left join retoma.batches as batch on batch.id = claimed.batch_id
 order by claimed.place;

-- name: follow
-- The next jobs of lines that a claim has just served, each from where that claim stopped. While a long transaction
-- runs, vacuum cannot remove the index entries of jobs claimed since it began, and a scan from the start would step
-- over all of them. Lines with a limit are left to claim, and claim has already started the batches.
with line as materialized (
    select wanted.queue, wanted.lane_id, wanted.pipeline, wanted.priority, wanted.run_at, wanted.id, wanted.turned,
           coalesce(queue.weight, 1) as weight
      from unnest(%(queues)s::text[], %(lanes)s::bigint[], %(pipelines)s::text[], %(priorities)s::smallint[],
                  %(run_ats)s::timestamptz[], %(ids)s::bigint[], %(turned)s::float8[])
           as wanted (queue, lane_id, pipeline, priority, run_at, id, turned)
      left join retoma.queues as queue on queue.name = wanted.queue
      left join retoma.lanes as lane on lane.id = wanted.lane_id
     where not coalesce(
-- include: rests
           , false)
       and lane.closed_at is null
       and lane.at_once is null
       and exists (select from retoma.workers as worker
                    where worker.id = %(worker_id)s::bigint and worker.stopped_at is null)
),
placed as materialized (
    select line.queue, line.lane_id, 0::bigint as after_lane, line.turned, line.weight, null::bigint as step,
           job.id, line.priority, job.run_at, null::integer as seat,
           row_number() over (partition by line.queue, line.lane_id
                              order by line.priority, job.run_at, job.id) as turn
      from line
     cross join lateral (
           select job.id, job.run_at
             from retoma.jobs as job
            where job.state = 'queued'
              and job.queue = line.queue
              and job.lane_id = line.lane_id
              and job.pipeline = line.pipeline
              and job.priority = line.priority
              and (job.run_at, job.id) > (line.run_at, line.id)
              and job.run_at <= now()
              and (job.expires_at is null or job.expires_at > now())
              and not (job.alone or job.crashes >= 2)
            order by job.run_at, job.id
            limit %(limit)s::integer
              for update skip locked) as job
),
-- include: take
select claimed.id, claimed.batch_id, claimed.queue, claimed.lane_id, claimed.pipeline, claimed.key,
       claimed.attempt, claimed.max_attempts, claimed.crashes, claimed.fence, claimed.signals,
       claimed.timeout_seconds, claimed.correlation_id, claimed.traceparent, claimed.input,
       batch.epoch as batch_epoch, claimed.cohort, claimed.priority, claimed.run_at, claimed.step, claimed.turned
  from claimed
  left join retoma.batches as batch on batch.id = claimed.batch_id
 order by claimed.place;

-- name: suspects
-- Whether, in these queues, a job that must run alone is next in its line and has a free slot.
select job.queue
  from retoma.jobs as job
  left join retoma.lanes as lane on lane.id = job.lane_id
 where job.state = 'queued'
   and (job.alone or job.crashes >= 2)
   and job.queue = any (%(queues)s::text[])
   and job.pipeline = any (%(pipelines)s::text[])
   and job.run_at <= now()
   and (job.expires_at is null or job.expires_at > now())
   and not exists (select from retoma.queues as queue
                    where queue.name = job.queue and
-- include: rests
                  )
   and lane.closed_at is null
   and (lane.at_once is null
        or exists (select from retoma.slots as slot
                    where slot.lane_id = lane.id and slot.place <= lane.at_once and slot.job_id is null))
   and not
-- include: ahead
 limit 1;

-- name: adopt
-- After a lost acknowledgement: the jobs that the claim with this token took.
select job.id, job.batch_id, job.queue, job.lane_id, job.pipeline, job.key, job.attempt, job.max_attempts,
       job.crashes, job.fence, job.signals, job.timeout_seconds, job.correlation_id, job.traceparent,
       job.input::text as input, batch.epoch as batch_epoch, job.cohort
  from retoma.jobs as job
  left join retoma.batches as batch on batch.id = job.batch_id
 where job.state = 'running'
   and job.worker_id = %(worker_id)s::bigint
   and job.claim_token = %(claim_token)s::uuid
 order by job.id;

-- name: end
-- Every ending of an attempt, for many jobs at once, locked in the order of the parameters (by id). A retryable failure
-- goes back to the queue while attempts are left. Postponed, waiting and released use no attempt. A job whose
-- cancellation was requested does not go back to the queue. A signal that arrived while the handler decided to wait
-- makes the job ready at once. (The condition is worker_id rather than state = 'running': it is equivalent, and keeps
-- the planner on the primary key.)
-- include: endings
freed as (
    update retoma.slots as slot
       set job_id = null
      from ended
     where slot.job_id = ended.id
),
moved as (
    select ended.batch_id, ended.id, ended.key, 'running' as was, ended.state, ended.seconds
      from ended
     where ended.id not in (select sent_away.job_id from sent_away)
),
-- include: tell
select ended.id, ended.state from ended;

-- name: end_alone
-- The same for jobs without a batch and a lane, as their worker knows: nothing else has to be updated.
-- include: endings
freed as (
    update retoma.slots as slot
       set job_id = null
      from ended
     where slot.job_id = ended.id
)
select ended.id, ended.state from ended;

-- name: ended
-- After a lost acknowledgement: which of these endings had been written. One claim has one ending.
select said.id, job.state
  from unnest(%(ids)s::bigint[], %(fences)s::bigint[], %(endings)s::text[]) as said (id, fence, ending)
  join retoma.attempts as attempt on attempt.job_id = said.id
                                 and attempt.fence = said.fence
                                 and attempt.ending = said.ending
  join retoma.jobs as job on job.id = said.id;

-- name: bury
-- An executor has ended and its supervisor knows it: the jobs that it blames, each with its own ending, and the others,
-- which are released without blame. A third crash means quarantine. An attempt that saved a checkpoint came further than
-- any before it, so the crashes before it do not count: a job that nobody can blame for certain does not run alone for
-- them. A job whose code was the only one on the processor runs alone from its first crash on. A job that had begun and
-- was beside such a one is released; one that was beside very many runs alone, because a death can have a cause that no
-- mark shows, and alone it would show itself.
with gone as (
    update retoma.workers as worker
       set stopped_at = coalesce(worker.stopped_at, now()),
           lease_expires_at = least(worker.lease_expires_at, now()),
           reason = coalesce(worker.reason, %(reason)s::text)
     where worker.id = %(worker_id)s::bigint
    returning worker.id
),
blamed as materialized (
    select *
      from unnest(%(ids)s::bigint[], %(endings)s::text[], %(delays)s::float8[], %(steps)s::text[],
                  %(seconds)s::real[], %(again)s::boolean[], %(alone)s::boolean[], %(reasons)s::text[],
                  %(errors)s::text[])
           as blamed (id, ending, delay, step, seconds, again, alone, reason, error)
),
held as materialized (
    select job.id, job.fence, job.attempt, job.worker_id, job.claimed_at,
           coalesce(blamed.ending, 'released') as ending,
           coalesce(blamed.delay, 0) as delay,
           blamed.step,
           blamed.seconds,
           coalesce(blamed.reason, %(reason)s::text) as reason,
           coalesce(blamed.error, case when blamed.ending <> 'released' then %(error)s::text end) as error,
           earlier.crashes + (blamed.ending = 'crashed')::integer as crashes,
           job.alone or coalesce(blamed.alone, false)
               or coalesce(blamed.reason = 'beside', false)
                  and (select count(*) from retoma.attempts as attempt
                        where attempt.job_id = job.id and attempt.reason = 'beside') + 1 >= %(most_beside)s::integer
               as alone,
           case when blamed.ending = 'cancelled' or job.cancel_requested_at is not null then 'cancelled'
                when coalesce(blamed.ending, 'released') = 'released' then 'queued'
                when blamed.ending = 'crashed' and earlier.crashes + 1 >= %(most_crashes)s::integer then 'failed'
                when not blamed.again or job.attempt >= job.max_attempts then 'failed'
                else 'queued'
           end as state
      from retoma.jobs as job
      left join blamed on blamed.id = job.id
     cross join lateral (
-- include: earlier
           ) as earlier
     where job.state = 'running'
       -- Goes through the worker's row, so that it is locked first, as in a sweep.
       and job.worker_id = (select gone.id from gone)
     order by job.id
       for no key update of job
),
ended as (
    update retoma.jobs as job
       set state = held.state,
           reason = case when held.state = 'failed' and held.ending = 'crashed'
                              and held.crashes >= %(most_crashes)s::integer then 'quarantine'
                         when held.ending <> 'released' then held.ending
                    end,
           attempt = case when held.ending = 'released' then job.attempt - 1 else job.attempt end,
           crashes = case when held.ending = 'crashed' then held.crashes else job.crashes end,
           alone = held.alone,
           expires_at = case when held.ending = 'released' and held.seconds is null then job.expires_at end,
           run_at = case when held.state = 'queued' and held.delay > 0
                         then now() + make_interval(secs => held.delay) else job.run_at end,
           worker_id = null,
           claim_token = null,
           finished_at = case when held.state <> 'queued' then now() end,
           error = case when held.ending <> 'released' then held.error else job.error end
      from held
     where job.id = held.id
    returning job.id, job.batch_id, job.key, job.pipeline, job.state, job.reason, job.attempt, job.crashes,
              held.ending, held.step, held.seconds, held.worker_id, job.correlation_id, job.queue, job.traceparent,
              held.fence
),
written as (
    insert into retoma.attempts (job_id, fence, attempt, worker_id, ending, reason, error, step, signal,
                                 peak_megabytes, claimed_at, seconds)
    select held.id, held.fence, held.attempt, held.worker_id, held.ending, held.reason, held.error, held.step,
           case when held.ending <> 'released' then %(signal)s::smallint end,
           case when held.ending <> 'released' then %(peak_megabytes)s::real end,
           held.claimed_at, held.seconds
      from held
),
freed as (
    update retoma.slots as slot
       set job_id = null
      from held
     where slot.job_id = held.id
),
moved as (
    select ended.batch_id, ended.id, ended.key, 'running' as was, ended.state, ended.seconds as seconds from ended
),
-- include: tell
select ended.id, ended.pipeline, ended.state, ended.reason, ended.attempt, ended.crashes, ended.ending, ended.step,
       ended.worker_id, ended.correlation_id, ended.queue, ended.fence, ended.seconds::float8 as seconds,
       case when ended.ending = 'crashed' then 'worker_gone' else 'watchdog' end as cause, ended.traceparent
  from ended
 order by ended.id;

-- name: recover
-- Recovers the jobs of silent workers: their lease has ended without a heartbeat. The scan visits the workers that hold
-- running jobs, and never judges how long a job takes. Recovered jobs keep their position. The predicate is checked
-- again under the lock, so a worker whose heartbeat arrived in time, or a job that ended in time, is left alone. Jobs
-- start in the order of their claims, and no more at once than the worker has places: jobs beyond that were only
-- prefetched, and are released without blame.
with recursive
-- include: watched
holder (worker_id) as (
    (select job.worker_id from retoma.jobs as job where job.state = 'running' order by job.worker_id limit 1)
    union all
    select following.worker_id
      from holder
     cross join lateral (
           select job.worker_id
             from retoma.jobs as job
            where job.state = 'running' and job.worker_id > holder.worker_id
            order by job.worker_id
            limit 1) as following
),
silent as materialized (
    select worker.id, worker.at_once,
           case when worker.reason = 'gone' then 'gone' else 'lease' end as reason,
           case when worker.reason = 'gone' then 'The worker that ran this job is gone: its processes ended.'
                else 'The worker that ran this job fell silent: its lease ended without a heartbeat.' end as error
      from retoma.workers as worker
     cross join quiet
     where (worker.stopped_at is null or worker.id in (select holder.worker_id from holder))
       and worker.lease_expires_at < now()
       and (not quiet.long
            or worker.stopped_at is not null
            or worker.spared_at is not null
            or worker.lease_expires_at <= quiet.since)
     order by worker.id
     limit %(limit)s::integer
       for no key update of worker skip locked
),
buried as (
    update retoma.workers as worker
       set stopped_at = coalesce(worker.stopped_at, now()),
           reason = coalesce(worker.reason, 'lost')
      from silent
     where worker.id = silent.id
),
locked as materialized (
    select job.id, job.fence, job.attempt, job.max_attempts, job.crashes, job.worker_id, job.claimed_at,
           job.cancel_requested_at
      from retoma.jobs as job
     where job.state = 'running'
       and job.worker_id in (select silent.id from silent)
     order by job.id
       for no key update of job skip locked
),
in_line as materialized (
    select locked.*,
           row_number() over (partition by locked.worker_id order by locked.claimed_at, locked.id) <= silent.at_once
               as begun,
           silent.reason, silent.error
      from locked
      join silent on silent.id = locked.worker_id
),
held as materialized (
    select job.id, job.fence, job.attempt, job.worker_id, job.claimed_at,
           case when job.begun then 'lost' else 'released' end as ending,
           case when job.begun then earlier.crashes + 1 else job.crashes end as crashes,
           case when job.cancel_requested_at is not null then 'cancelled'
                when not job.begun then 'queued'
                when earlier.crashes + 1 >= %(most_crashes)s::integer then 'failed'
                when job.attempt >= job.max_attempts then 'failed'
                else 'queued'
           end as state,
           job.reason, job.error
      from in_line as job
     cross join lateral (
-- include: earlier
           ) as earlier
),
ended as (
    update retoma.jobs as job
       set state = held.state,
           reason = case when held.ending = 'released' then null
                         when held.state = 'failed' and held.crashes >= %(most_crashes)s::integer then 'quarantine'
                         else 'lost' end,
           attempt = case when held.ending = 'released' then job.attempt - 1 else job.attempt end,
           crashes = held.crashes,
           expires_at = case when held.ending = 'released' then job.expires_at end,
           worker_id = null,
           claim_token = null,
           finished_at = case when held.state <> 'queued' then now() end,
           error = case when held.ending = 'released' then job.error else held.error end
      from held
     where job.id = held.id
    returning job.id, job.batch_id, job.key, job.pipeline, job.state, job.reason, job.attempt, job.crashes,
              held.ending, null::text as step, held.worker_id, job.correlation_id, job.queue, job.traceparent,
              held.fence, extract(epoch from now() - held.claimed_at)::float8 as seconds,
              case held.reason when 'gone' then 'worker_gone' else 'lease_expired' end as cause
),
written as (
    insert into retoma.attempts (job_id, fence, attempt, worker_id, ending, reason, claimed_at)
    select held.id, held.fence, held.attempt, held.worker_id, held.ending, held.reason, held.claimed_at
      from held
),
freed as (
    update retoma.slots as slot
       set job_id = null
      from held
     where slot.job_id = held.id
),
moved as (
    select ended.batch_id, ended.id, ended.key, 'running' as was, ended.state, null::real as seconds from ended
),
-- include: tell
select ended.id, ended.pipeline, ended.state, ended.reason, ended.attempt, ended.crashes, ended.ending, ended.step,
       ended.worker_id, ended.correlation_id, ended.queue, ended.fence, ended.seconds, ended.cause,
       ended.traceparent,
       (select count(pg_notify('retoma', waiting.queue))
          from (select distinct ended.queue from ended where ended.state = 'queued') as waiting) as hints
  from ended
 order by ended.id;

-- name: overdue
-- Jobs that have been running for longer than any job should, counted from their start and not from their creation.
-- Their worker learns of it with the next heartbeat.
with late as materialized (
    select job.id, job.fence, job.attempt, job.worker_id, job.claimed_at
      from retoma.jobs as job
     where job.state = 'running'
       and job.claimed_at < now() - make_interval(secs => greatest(%(older_than)s::float8, job.timeout_seconds))
     order by job.id
     limit %(limit)s::integer
       for no key update skip locked
),
ended as (
    update retoma.jobs as job
       set state = 'failed',
           reason = 'overdue',
           error = 'It had been running for longer than anything should, and was given up.',
           worker_id = null,
           claim_token = null,
           finished_at = now()
      from late
     where job.id = late.id
    returning job.id, job.batch_id, job.key, job.state
),
written as (
    insert into retoma.attempts (job_id, fence, attempt, worker_id, ending, reason, claimed_at)
    select late.id, late.fence, late.attempt, late.worker_id, 'failed', 'overdue', late.claimed_at from late
),
freed as (
    update retoma.slots as slot set job_id = null from late where slot.job_id = late.id
),
moved as (
    select ended.batch_id, ended.id, ended.key, 'running' as was, ended.state, null::real as seconds from ended
),
-- include: tell
select ended.id from ended;

-- name: expire
-- Jobs that waited longer than they were allowed to.
with late as materialized (
    select job.id
      from retoma.jobs as job
     where job.state = 'queued' and job.expires_at <= now()
     order by job.id
     limit %(limit)s::integer
       for no key update skip locked
),
expired as (
    update retoma.jobs as job
       set state = 'failed',
           reason = 'expired',
           error = 'No worker took this job before its time in the queue was over.',
           finished_at = now()
      from late
     where job.id = late.id
    returning job.id, job.batch_id, job.key, job.state
),
moved as (
    select expired.batch_id, expired.id, expired.key, 'queued' as was, expired.state, null::real as seconds
      from expired
),
-- include: tell
select expired.id from expired;

-- name: cancel
-- A waiting job ends now; a running one is asked to stop, and its worker learns of it with the next heartbeat. Every
-- column that the constraints check is set from the locked row: PostgreSQL checks them first against the row version of
-- the statement's snapshot, where a job that was just released still has its worker.
with wanted as materialized (
    select job.id, job.state
      from retoma.jobs as job
     where job.id = any (%(ids)s::bigint[])
       and job.state in ('queued', 'running')
     order by job.id
       for no key update
),
asked as (
    update retoma.jobs as job
       set state = case when wanted.state = 'queued' then 'cancelled' else job.state end,
           reason = case when wanted.state = 'queued' then %(reason)s::text else job.reason end,
           worker_id = case when wanted.state = 'running' then job.worker_id end,
           claim_token = case when wanted.state = 'running' then job.claim_token end,
           finished_at = case when wanted.state = 'queued' then now() end,
           cancel_requested_at = coalesce(job.cancel_requested_at, now())
      from wanted
     where job.id = wanted.id
    returning job.id, job.batch_id, job.key, job.state
),
moved as (
    select asked.batch_id, asked.id, asked.key, 'queued' as was, asked.state, null::real as seconds
      from asked
     where asked.state = 'cancelled'
),
-- include: tell
select asked.id, asked.state from asked;

-- name: hold
-- Locks jobs before a command decides about them, in id order. A statement that had to wait for a row reads the newest
-- version of that row, but every other row as it was before it waited: a discard, a batch or a checkpoint that was
-- committed meanwhile is visible only to the next statement.
select job.id
  from retoma.jobs as job
 where job.id = any (%(ids)s::bigint[])
 order by job.id
   for no key update;

-- name: retry
-- A person retries jobs that ended badly: new attempts, old checkpoints. The caller has locked them.
with kept as materialized (
    -- A batch that is being deleted is not revived, and a batch that is being revived cannot be deleted meanwhile.
    select batch.id
      from retoma.batches as batch
     where batch.id in (select job.batch_id from retoma.jobs as job where job.id = any (%(ids)s::bigint[]))
       and batch.pruned_at is null
     order by batch.id
       for key share
),
wanted as materialized (
    select job.id, job.state
      from retoma.jobs as job
     where job.id = any (%(ids)s::bigint[])
       and job.state in ('failed', 'cancelled', 'review')
       and not
-- include: discarded
       and (job.batch_id is null or job.batch_id in (select kept.id from kept))
     order by job.id
       for no key update
),
queued as (
    update retoma.jobs as job
       set state = 'queued',
           reason = null,
           run_at = now(),
           expires_at = null,
           max_attempts = job.attempt + coalesce(%(attempts)s::integer, greatest(job.max_attempts - job.attempt, 1)),
           retried_fence = job.fence,
           crashes = 0,
           alone = false,
           cancel_requested_at = null,
           finished_at = null,
           error = null
      from wanted
     where job.id = wanted.id
    returning job.id, job.batch_id, job.key, wanted.state as was, job.state, job.queue
),
hint as (
    select pg_notify('retoma', named.queue) from (select distinct queued.queue from queued) as named
),
moved as (
    select queued.batch_id, queued.id, queued.key, queued.was, queued.state, null::real as seconds from queued
),
-- include: tell
select queued.id, queued.state, (select count(*) from hint) as hints from queued;

-- name: signal
-- Delivers a signal to a job; the first value under a name is kept. The job's row is updated in every case, so that a
-- handler that is just deciding to wait notices the signal. It is locked first: one that ends meanwhile hears nothing.
with listening as materialized (
    select job.id
      from retoma.jobs as job
     where job.id = %(id)s::bigint and job.state in ('queued', 'running')
       for no key update
),
heard as (
    insert into retoma.signals (job_id, name, value)
    select listening.id, %(name)s::text, %(value)s::json
      from listening
    on conflict (job_id, name) do nothing
    returning job_id
),
told as (
    update retoma.jobs as job
       set signals = job.signals + 1,
           run_at = case when job.state = 'queued' and job.reason = 'waiting' then now() else job.run_at end
      from heard
     where job.id = heard.job_id
    returning job.id, job.lane_id, job.state, job.queue
),
into_lane as materialized (
    select told.lane_id from told where told.state = 'queued' and told.lane_id > 0
),
-- include: rouse
select told.id, told.state, pg_notify('retoma', told.queue)::text as hint from told;

-- name: heard
select signal.value::text as value
  from retoma.signals as signal
 where signal.job_id = %(id)s::bigint and signal.name = %(name)s::text;

-- name: one
select job.id, job.batch_id, job.queue, lane.name as lane, job.pipeline, job.key, job.priority, job.state,
       job.reason, job.run_at, job.expires_at, job.attempt, job.max_attempts, job.crashes, job.fence,
       job.worker_id, worker.label as worker, job.cancel_requested_at, job.timeout_seconds, job.created_at,
       job.claimed_at, job.finished_at, job.correlation_id, job.input::text as input, job.output::text as output,
       job.error, job.traceparent, discard.discarded_at, discard.discarded_by, job.cohort
  from retoma.jobs as job
  left join retoma.lanes as lane on lane.id = job.lane_id
  left join retoma.workers as worker on worker.id = job.worker_id
  left join retoma.discards as discard on discard.job_id = job.id
                                      and discard.failed_at = job.finished_at
                                      and job.state = 'failed'
 where job.id = %(id)s::bigint;

-- name: failed
-- The ids of the failed jobs, oldest first, after a cursor: a command on all of them needs no more.
select job.id
  from retoma.jobs as job
 where job.state = 'failed'
   and not
-- include: discarded
   and (%(pipeline)s::text is null or job.pipeline = %(pipeline)s::text)
   and job.id > %(after)s::bigint
 order by job.id
 limit %(limit)s::integer;

-- name: prune
-- Jobs that ended long ago, oldest first, a bounded piece at a time, with everything that belongs to them.
with old as materialized (
    select job.id
      from retoma.jobs as job
     where job.finished_at < now() - make_interval(secs => %(older_than)s::float8)
       and job.batch_id is null
     order by job.finished_at
     limit %(limit)s::integer
       for update skip locked
),
gone_attempts as (delete from retoma.attempts as attempt using old where attempt.job_id = old.id),
gone_checkpoints as (delete from retoma.checkpoints as checkpoint using old where checkpoint.job_id = old.id),
gone_signals as (delete from retoma.signals as signal using old where signal.job_id = old.id),
gone_reviews as (delete from retoma.reviews as review using old where review.job_id = old.id),
gone_decisions as (delete from retoma.decisions as decision using old where decision.job_id = old.id),
gone_discards as (delete from retoma.discards as discard using old where discard.job_id = old.id)
delete from retoma.jobs as job using old where job.id = old.id
returning job.id;

-- name: restart
-- Start over: the checkpoints are set aside, and the jobs are queued as if they had never run. With a step, only what
-- was saved from there on: whatever follows from a step is saved after it. A job that begins anew runs under the newest
-- configuration of its batch. The caller has locked them.
with kept as materialized (
    -- A batch that is being deleted is not revived, and a batch that is being revived cannot be deleted meanwhile.
    select batch.id
      from retoma.batches as batch
     where batch.id in (select job.batch_id from retoma.jobs as job where job.id = any (%(ids)s::bigint[]))
       and batch.pruned_at is null
     order by batch.id
       for key share
),
wanted as materialized (
    select job.id, job.state
      from retoma.jobs as job
     where job.id = any (%(ids)s::bigint[])
       and job.state in ('completed', 'skipped', 'failed', 'review', 'cancelled')
       and not
-- include: discarded
       and (job.batch_id is null or job.batch_id in (select kept.id from kept))
       and (%(step)s::text is null
            or exists (select from retoma.checkpoints as checkpoint
                        where checkpoint.job_id = job.id
                          and checkpoint.step = %(step)s::text
                          and checkpoint.set_aside_at is null))
     order by job.id
       for no key update
),
aside as (
    update retoma.checkpoints as checkpoint
       set set_aside_at = now(),
           reason = 'restart'
      from wanted
     where checkpoint.job_id = wanted.id
       and checkpoint.set_aside_at is null
       and (%(step)s::text is null
            or checkpoint.saved_at >= (select min(named.saved_at)
                                         from retoma.checkpoints as named
                                        where named.job_id = wanted.id
                                          and named.step = %(step)s::text
                                          and named.set_aside_at is null))
),
unheard as (
    delete from retoma.signals as signal using wanted where signal.job_id = wanted.id
),
queued as (
    update retoma.jobs as job
       set state = 'queued',
           reason = 'restart',
           run_at = now(),
           expires_at = null,
           attempt = 0,
           max_attempts = coalesce(%(attempts)s::integer, job.max_attempts),
           retried_fence = job.fence,
           restarted_fence = job.fence,
           crashes = 0,
           alone = false,
           cancel_requested_at = null,
           finished_at = null,
           output = null,
           error = null,
           cohort = case when %(step)s::text is null
                         then coalesce((select batch.cohort from retoma.batches as batch where batch.id = job.batch_id),
                                       job.cohort)
                         else job.cohort end
      from wanted
     where job.id = wanted.id
    returning job.id, job.batch_id, job.key, wanted.state as was, job.state, job.queue
),
hint as (
    select pg_notify('retoma', named.queue) from (select distinct queued.queue from queued) as named
),
moved as (
    select queued.batch_id, queued.id, queued.key, queued.was, queued.state, null::real as seconds from queued
),
-- include: tell
select queued.id, queued.state, (select count(*) from hint) as hints from queued;

-- name: discard
-- Failures that a person settles: the jobs stay failed, with all that is known of them. One that was settled before
-- has no row in the result.
with wanted as materialized (
    select job.id, job.finished_at
      from retoma.jobs as job
     where job.id = any (%(ids)s::bigint[])
       and job.state = 'failed'
     order by job.id
       for no key update
)
insert into retoma.discards (job_id, failed_at, discarded_by, reason)
select wanted.id, wanted.finished_at, %(by)s::text, %(reason)s::text
  from wanted
on conflict (job_id) do update
   set failed_at = excluded.failed_at,
       discarded_at = now(),
       discarded_by = excluded.discarded_by,
       reason = excluded.reason
 where discards.failed_at <> excluded.failed_at
returning job_id as id, 'failed' as state;

-- name: reinstate
-- They are dead letters again, and can be retried. The caller has locked them.
delete from retoma.discards as discard
 using retoma.jobs as job
 where discard.job_id = any (%(ids)s::bigint[])
   and job.id = discard.job_id
   and job.state = 'failed'
   and job.finished_at = discard.failed_at
returning job.id, job.state;

-- name: move
-- Waiting jobs of no lane go to another queue. The caller has locked them.
with moved as (
    update retoma.jobs as job
       set queue = %(queue)s::text
     where job.id = any (%(ids)s::bigint[])
       and job.state = 'queued'
       and job.batch_id is null
       and job.lane_id = 0
    returning job.id, job.state
)
select moved.id, moved.state,
       (select count(pg_notify('retoma', %(queue)s::text)) from (select from moved limit 1) as one) as hints
  from moved;

-- name: prioritise
-- Waiting jobs are claimed earlier or later. The caller has locked them.
update retoma.jobs as job
   set priority = %(priority)s::smallint
 where job.id = any (%(ids)s::bigint[])
   and job.state = 'queued'
returning job.id, job.state;
