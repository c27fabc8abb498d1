-- Batches: many jobs followed as one. Each command is decided under the lock of the batch's row, by its state, and
-- recorded as an event in the same statement. A command that changes the batch's jobs skips those that are locked at
-- the moment, because their holder is about to update the batch. They are visited again afterwards.

-- name: create
-- Its lane is closed until the batch is sealed, so no job can be claimed.
with new as (
    select nextval('retoma.batches_id_seq') as id
),
lane as (
    insert into retoma.lanes (queue, name, at_once, closed_at)
    select %(queue)s::text, 'batch:' || new.id, %(at_once)s::integer, now() from new
    returning id, at_once
),
places as (
    insert into retoma.slots (lane_id, place)
    select lane.id, place from lane cross join generate_series(1, lane.at_once) as place
),
created as (
    insert into retoma.batches (id, name, pipeline, queue, lane_id, route, labels, configuration, correlation_id,
                                max_resumes, max_failure_rate, budget, stall_seconds, event_seq, expires_at,
                                traceparent, finish)
    overriding system value
    select new.id, %(name)s::text, %(pipeline)s::text, %(queue)s::text, lane.id, %(route)s::text,
           %(labels)s::jsonb, %(configuration)s::json, %(correlation_id)s::text, %(max_resumes)s::integer,
           %(max_failure_rate)s::real, %(budget)s::numeric, %(stall_seconds)s::real, 1,
           now() + make_interval(secs => %(expires)s::float8), %(traceparent)s::text, %(finish)s::json
      from new
     cross join lane
    returning id, name
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select created.id, 1, 'created', json_build_object('name', created.name) from created
)
select created.id from created;

-- name: alone
-- Serialises the commands on one batch, and the pieces of an operation. This lock comes before those of jobs and
-- batches, and blocks nothing else.
select pg_advisory_xact_lock(736802, (%(id)s::bigint %% 2147483647)::integer)::text as alone;

-- name: hold
-- Locks and reads the row. Later statements of the same transaction see everything that was committed before.
select batch.state, batch.was, batch.epoch, batch.resumes, batch.max_resumes, batch.unfinished,
       batch.sealed_at is not null as sealed, batch.reason, batch.total, batch.failures, batch.operation_id,
       batch.traceparent, batch.finishing, batch.finish_job_id
  from retoma.batches as batch
 where batch.id = %(id)s::bigint
   and batch.pruned_at is null
   for no key update;

-- name: filling
-- Keeps the batch open while jobs are added: it can be neither sealed, cancelled nor expired in the meantime.
select batch.id, batch.queue, lane.name as lane, batch.pipeline, batch.correlation_id
  from retoma.batches as batch
  join retoma.lanes as lane on lane.id = batch.lane_id
 where batch.id = %(id)s::bigint
   and batch.sealed_at is null
   and batch.state = 'queued'
   for share of batch;

-- name: sample
-- Which jobs of an open batch its pilot runs: of all jobs in the order of their kind and size, some at equal distances.
-- So each kind and each size has its share, and the same jobs give the same pilot. The kind is the first field of the
-- input, where there is one and it has few values.
with job as materialized (
    select job.id, octet_length(job.input::text) as size,
           case when json_typeof(job.input) = 'object'
                then left((select field.value from json_each_text(job.input) as field limit 1), 100) end as kind
      from retoma.jobs as job
     where job.batch_id = %(id)s::bigint
       and job.state = 'queued'
),
kinds as materialized (
    select count(distinct job.kind) as many from job
),
placed as materialized (
    select job.id, count(*) over () as jobs,
           row_number() over (order by case when kinds.many <= %(kinds)s::integer then job.kind end nulls last,
                                       job.size, job.id) as place
      from job
     cross join kinds
)
select placed.id
  from placed
 where placed.place * %(jobs)s::bigint / placed.jobs > (placed.place - 1) * %(jobs)s::bigint / placed.jobs
 order by placed.id;

-- name: begin_pilot
-- The jobs of the pilot go into a lane of their own, which opens with the batch; the lane of the others stays closed.
-- The caller has locked the batch, which is not sealed: nobody else touches its jobs.
with wanted as materialized (
    select batch.id, batch.queue, lane.at_once
      from retoma.batches as batch
      join retoma.lanes as lane on lane.id = batch.lane_id
     where batch.id = %(id)s::bigint
       and batch.sealed_at is null
       and batch.pilot_lane_id is null
),
lane as (
    insert into retoma.lanes (queue, name, at_once, closed_at)
    select wanted.queue, 'batch:' || wanted.id || ':pilot', wanted.at_once, now() from wanted
    returning id, at_once
),
places as (
    insert into retoma.slots (lane_id, place)
    select lane.id, place from lane cross join generate_series(1, lane.at_once) as place
),
moved as (
    update retoma.jobs as job
       set lane_id = lane.id
      from lane
     where job.id = any (%(jobs)s::bigint[])
       and job.batch_id = %(id)s::bigint
       and job.state = 'queued'
)
update retoma.batches as batch
   set pilot_lane_id = lane.id,
       held_at = now()
  from wanted
 cross join lane
 where batch.id = wanted.id
returning batch.id;

-- name: release
-- What the pilot held may be taken: two rows, however many jobs there are. Of several callers, one finds it held.
with wanted as materialized (
    select batch.id, batch.lane_id, batch.queue, batch.state, batch.event_seq
      from retoma.batches as batch
     where batch.id = %(id)s::bigint
       and batch.held_at is not null
       and batch.sealed_at is not null
       and batch.state in ('queued', 'running', 'stalled', 'paused')
       for no key update
),
released as (
    update retoma.batches as batch
       set held_at = null,
           last_progress_at = case when wanted.state = 'running' then now() else batch.last_progress_at end,
           epoch = batch.epoch + 1,
           event_seq = wanted.event_seq + 1
      from wanted
     where batch.id = wanted.id
),
opened as (
    update retoma.lanes as lane
       set closed_at = null,
           awake = true,
           wake_at = null
      from wanted
     where lane.id = wanted.lane_id
       and wanted.state <> 'paused'
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select wanted.id, wanted.event_seq + 1, 'released', json_build_object('by', %(by)s::text) from wanted
)
select wanted.id, pg_notify('retoma', wanted.queue)::text as hint from wanted;

-- name: pilot
-- Each job of the pilot: how it stands, how long it worked, and what it cost.
select job.id, job.state, octet_length(job.input::text)::integer as size,
       coalesce(worked.seconds, 0)::float8 as seconds, worked.began_at, worked.ended_at,
       coalesce(paid.cost, 0) as cost, coalesce(paid.unpriced, 0)::integer as unpriced
  from retoma.batches as batch
  join retoma.jobs as job on job.batch_id = batch.id and job.lane_id = batch.pilot_lane_id
  left join lateral (
       select sum(attempt.seconds) as seconds, min(attempt.claimed_at) as began_at, max(attempt.ended_at) as ended_at
         from retoma.attempts as attempt
        where attempt.job_id = job.id) as worked on true
  left join lateral (
       select sum(call.cost) as cost,
              count(*) filter (where call.cost_basis in ('unpriced', 'unreported')) as unpriced
         from retoma.calls as call
        where call.job_id = job.id) as paid on true
 where batch.id = %(id)s::bigint
   and batch.pruned_at is null
 order by job.id;

-- name: seal
-- All its jobs are there, so they can be claimed from now on. A batch without jobs stays open.
with counted as materialized (
    select batch.id, batch.lane_id, batch.pilot_lane_id, batch.held_at, batch.event_seq, batch.queue, batch.name,
           batch.pipeline, batch.correlation_id, batch.traceparent, batch.finish::jsonb as finish
      from retoma.batches as batch
     where batch.id = %(id)s::bigint
       and batch.sealed_at is null
       and batch.state = 'queued'
       for no key update
),
filled as materialized (
    select counted.id, counted.lane_id, counted.pilot_lane_id, counted.held_at, counted.event_seq, counted.queue,
           counted.name, counted.pipeline, counted.correlation_id, counted.traceparent, counted.finish,
           count(*)::integer as total,
           count(*) filter (where job.state = 'queued')::integer as unfinished,
           count(*) filter (where job.state = 'failed')::integer as failures
      from counted
      join retoma.jobs as job on job.batch_id = counted.id
     group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
    having count(*) filter (where job.state = 'queued') > 0
       and count(*) = coalesce(%(expected)s::integer, count(*))
),
last_lane as (
    -- Its last step, where it has one, is a job of the batch from here on: in a lane that opens when its turn comes.
    insert into retoma.lanes (queue, name, closed_at)
    select filled.queue, 'batch:' || filled.id || ':finish', now() from filled where filled.finish is not null
    returning id
),
last_job as (
    insert into retoma.jobs (batch_id, queue, lane_id, pipeline, key, priority, max_attempts, timeout_seconds,
                             correlation_id, traceparent, input)
    select filled.id, filled.queue, last_lane.id, filled.finish ->> 'pipeline', 'finish',
           (filled.finish ->> 'priority')::smallint, (filled.finish ->> 'attempts')::integer,
           (filled.finish ->> 'timeout')::real, filled.correlation_id, filled.traceparent,
           json_build_object('batch_id', filled.id, 'name', filled.name, 'pipeline', filled.pipeline,
                             'total', filled.total)
      from filled
     cross join last_lane
    returning id, lane_id
),
sealed as (
    update retoma.batches as batch
       set sealed_at = now(),
           expires_at = null,
           total = filled.total,
           unfinished = filled.unfinished,
           failures = filled.failures,
           event_seq = filled.event_seq + 1,
           finish_job_id = last_job.id,
           finish_lane_id = last_job.lane_id,
           finishing = case when last_job.id is not null then 'waiting' end,
           finish_owed = case when last_job.id is not null then false end,
           finish_run = case when last_job.id is not null then 1 end,
           finish_slack = filled.total - ceil(filled.total * (filled.finish ->> 'share')::numeric)::integer,
           finish_well = case when last_job.id is not null then 0 end
      from filled
      left join last_job on true
     where batch.id = filled.id
    returning batch.id, batch.queue, batch.total
),
opened as (
    update retoma.lanes as lane
       set closed_at = case when filled.held_at is not null and lane.id = filled.lane_id then lane.closed_at end,
           awake = true,
           wake_at = null
      from filled
     where lane.id in (filled.lane_id, filled.pilot_lane_id)
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select filled.id, filled.event_seq + 1, 'sealed', json_build_object('total', filled.total) from filled
)
select sealed.id, sealed.total, pg_notify('retoma', sealed.queue)::text as hint from sealed;

-- name: size
select count(*)::integer as jobs, count(*) filter (where job.state = 'queued')::integer as waiting
  from retoma.jobs as job
 where job.batch_id = %(id)s::bigint;

-- name: pause
-- No job of it is claimed any more; running jobs are released after their current step, with the next heartbeat. With
-- an amount that is needed, pause only when the budget would not cover it even if no call in flight were billed. The
-- caller of that form has locked the batch, so that its reservations do not change.
with wanted as materialized (
    select batch.id, batch.lane_id, batch.pilot_lane_id, batch.finish_lane_id, batch.state, batch.event_seq
      from retoma.batches as batch
     where batch.id = %(id)s::bigint
       and batch.sealed_at is not null
       and batch.state in ('queued', 'running', 'stalled')
       and (%(needed)s::numeric is null
            or batch.spent + batch.reserved + %(needed)s::numeric
               - (select coalesce(sum(call.reserved), 0)
                    from retoma.calls as call
                   where call.batch_id = batch.id
                     and call.state = 'open') > batch.budget)
       for no key update
),
paused as (
    update retoma.batches as batch
       set state = 'paused',
           was = wanted.state,
           reason = %(reason)s::text,
           stalled_at = null,
           epoch = batch.epoch + 1,
           event_seq = wanted.event_seq + 1
      from wanted
     where batch.id = wanted.id
),
closed as (
    update retoma.lanes as lane
       set closed_at = now()
      from wanted
     where lane.id in (wanted.lane_id, wanted.pilot_lane_id, wanted.finish_lane_id)
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select wanted.id, wanted.event_seq + 1, 'paused',
           json_strip_nulls(json_build_object('before', wanted.state, 'why', %(reason)s::text, 'by', %(by)s::text))
      from wanted
)
select wanted.id from wanted;

-- name: resume
-- Continue from where it stopped. Of several callers, one finds it stopped and moves it; the others find it running.
-- Resuming a paused batch costs nothing. Resuming a stalled or failed one is counted and limited, unless nothing is
-- left to do: then it is completed.
with wanted as materialized (
    select batch.id, batch.lane_id, batch.pilot_lane_id, batch.finish_lane_id, batch.held_at, batch.queue, batch.state,
           batch.event_seq, batch.failures, batch.total - batch.unfinished as ended,
           hands.served, last.turn, batch.finishing,
           -- Without a live worker to carry it out, no resume is used up.
           (batch.state <> 'paused' and (batch.unfinished > 0 or coalesce(last.turn in ('waiting', 'open'), false))
            and hands.served)::integer as cost,
           case when batch.unfinished = 0 and (last.turn is null or last.turn in ('ended', 'failed')) then 'completed'
                when batch.started_at is not null
                     -- It was paused while its first job was being claimed.
                     or batch.unfinished < batch.total
                     or exists (select from retoma.jobs as job where job.batch_id = batch.id and job.state = 'running')
                then 'running'
                else 'queued' end as goes_on
      from retoma.batches as batch
     cross join lateral (
           select exists (select
                            from retoma.workers as worker
                           where worker.stopped_at is null
                             and worker.stopping_at is null
                             and worker.lease_expires_at > now()
                             and batch.queue = any (worker.queues)
                             and case when batch.unfinished = 0 and batch.finishing in ('waiting', 'open')
                                      then batch.finish ->> 'pipeline' else batch.pipeline end
                                 = any (worker.pipelines)) as served) as hands
     cross join lateral (
           select batch.unfinished, batch.operation_id, batch.finishing, batch.finish_owed, batch.finish_run,
                  batch.finish_slack, batch.finish_well) as counted
     cross join lateral (
           select
-- include: last_step
                  as turn) as last
     where batch.id = %(id)s::bigint
       and (batch.state = 'paused'
            or batch.state = 'failed' and batch.unfinished = 0
               and (last.turn is null or last.turn in ('ended', 'failed'))
            or batch.state in ('stalled', 'failed')
               and batch.resumes < coalesce(%(max_resumes)s::integer, batch.max_resumes))
       and (%(epoch)s::integer is null or batch.epoch = %(epoch)s::integer)
       for no key update of batch
),
resumed as (
    update retoma.batches as batch
       set state = wanted.goes_on,
           was = wanted.state,
           reason = null,
           cause = null,
           resumes = batch.resumes + wanted.cost,
           max_resumes = coalesce(%(max_resumes)s::integer, batch.max_resumes),
           -- The person who resumes has seen the failures so far: the failure policy counts from here.
           forgiven = wanted.failures,
           forgiven_of = wanted.ended,
           stalled_at = null,
           finished_at = case when wanted.goes_on = 'completed' then now() end,
           started_at = case when wanted.goes_on = 'running' then coalesce(batch.started_at, now())
                             else batch.started_at end,
           last_progress_at = case when wanted.goes_on = 'running' then now() else batch.last_progress_at end,
           finishing = wanted.turn,
           finish_owed = batch.finish_owed or wanted.turn = 'ended' and wanted.finishing = 'waiting',
           epoch = batch.epoch + 1,
           traceparent = coalesce(%(traceparent)s::text, batch.traceparent),
           event_seq = wanted.event_seq + 1
      from wanted
     where batch.id = wanted.id
),
opened as (
    update retoma.lanes as lane
       set closed_at = case when wanted.held_at is not null and lane.id = wanted.lane_id then lane.closed_at end,
           awake = true,
           wake_at = null
      from wanted
     where lane.id in (wanted.lane_id, wanted.pilot_lane_id)
        or lane.id = wanted.finish_lane_id and wanted.turn = 'open'
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select wanted.id, wanted.event_seq + 1, wanted.goes_on,
           json_build_object('before', wanted.state, 'why', 'resumed', 'by', %(by)s::text, 'counted', wanted.cost)
      from wanted
)
select wanted.id, wanted.state as was, wanted.served, pg_notify('retoma', wanted.queue)::text as hint from wanted;

-- name: wake
-- A resume does not wait for the next retry: jobs that failed or were postponed by a provider are due now.
with wanted as materialized (
    select job.id
      from retoma.jobs as job
     where job.batch_id = %(id)s::bigint
       and job.state = 'queued'
       and job.run_at > now()
       and
-- include: troubled
     order by job.id
     limit %(limit)s::integer
       for no key update skip locked
),
woken as (
    update retoma.jobs as job
       set run_at = now()
      from wanted
     where job.id = wanted.id
    returning job.id, job.lane_id
),
into_lane as materialized (
    select distinct woken.lane_id from woken where woken.lane_id > 0
),
-- include: rouse
select woken.id from woken;

-- name: take_back
-- A resume takes hanging jobs away from their workers: those that were claimed before the batch fell silent. The
-- workers learn of it with the next heartbeat, and the fence rejects whatever they write until then.
with held as materialized (
    select job.id, job.fence, job.attempt, job.worker_id, job.claimed_at,
           case when job.cancel_requested_at is null then 'queued' else 'cancelled' end as state
      from retoma.jobs as job
      join retoma.batches as batch on batch.id = job.batch_id
     where job.batch_id = %(id)s::bigint
       and job.state = 'running'
       and job.claimed_at < now() - make_interval(secs => batch.stall_seconds)
     order by job.id
     limit %(limit)s::integer
       for no key update of job skip locked
),
queued as (
    update retoma.jobs as job
       set state = held.state,
           reason = 'resumed',
           expires_at = null,
           attempt = job.attempt - 1,
           worker_id = null,
           claim_token = null,
           finished_at = case when held.state = 'cancelled' then now() end
      from held
     where job.id = held.id
    returning job.id, job.batch_id, job.key, job.state
),
written as (
    insert into retoma.attempts (job_id, fence, attempt, worker_id, ending, reason, claimed_at)
    select held.id, held.fence, held.attempt, held.worker_id, 'released', 'resumed', held.claimed_at from held
),
freed as (
    update retoma.slots as slot set job_id = null from held where slot.job_id = held.id
),
moved as (
    select queued.batch_id, queued.id, queued.key, 'running' as was, queued.state, null::real as seconds from queued
),
-- include: tell
select queued.id from queued;

-- name: cancel
-- The jobs of a batch that was never sealed are counted now.
with wanted as materialized (
    select batch.id, batch.lane_id, batch.pilot_lane_id, batch.finish_lane_id, batch.state, batch.event_seq,
           batch.sealed_at
      from retoma.batches as batch
     where batch.id = %(id)s::bigint
       and batch.state in ('queued', 'running', 'stalled', 'paused')
       for no key update
),
counted as materialized (
    select wanted.id, count(*)::integer as total, count(*) filter (where job.state = 'queued')::integer as unfinished,
           count(*) filter (where job.state = 'failed')::integer as failures
      from wanted
      join retoma.jobs as job on job.batch_id = wanted.id
     where wanted.sealed_at is null
     group by wanted.id
),
cancelled as (
    update retoma.batches as batch
       set state = 'cancelled',
           was = wanted.state,
           reason = %(reason)s::text,
           total = coalesce(counted.total, batch.total),
           sealed_at = case when counted.total is null then batch.sealed_at else now() end,
           unfinished = coalesce(counted.unfinished, batch.unfinished),
           failures = coalesce(counted.failures, batch.failures),
           finished_at = now(),
           stalled_at = null,
           expires_at = null,
           operation_id = null,
           -- A further run of its last step that was due is not made.
           finishing = case when batch.finish_owed then 'ended' else batch.finishing end,
           finish_owed = case when batch.finish_owed then false else batch.finish_owed end,
           epoch = batch.epoch + 1,
           event_seq = wanted.event_seq + 1
      from wanted
      left join counted on counted.id = wanted.id
     where batch.id = wanted.id
),
closed as (
    update retoma.lanes as lane
       set closed_at = now()
      from wanted
     where lane.id in (wanted.lane_id, wanted.pilot_lane_id, wanted.finish_lane_id)
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select wanted.id, wanted.event_seq + 1, 'cancelled',
           json_strip_nulls(json_build_object('before', wanted.state, 'why', %(reason)s::text, 'by', %(by)s::text))
      from wanted
)
select wanted.id from wanted;

-- name: cancel_jobs
-- The jobs of a cancelled batch, a bounded piece at a time: waiting jobs end now, running jobs are asked to stop.
-- include: candidates
wanted as materialized (
    select job.id, job.state
      from candidate
      join retoma.jobs as job on job.id = candidate.id
     where job.state = 'queued'
        or job.state = 'running' and job.cancel_requested_at is null
     order by job.id
       for no key update of job skip locked
),
-- include: called_off
-- include: tell
select candidate.id, asked.id is not null as moved,
       asked.id is not null or job.state = 'running' and job.cancel_requested_at is not null as settled
  from candidate
  join retoma.jobs as job on job.id = candidate.id
  left join asked on asked.id = candidate.id
 order by candidate.id;

-- name: cancel_rest
-- Jobs that were released into a batch after its cancellation, a bounded piece of them.
with wanted as materialized (
    select job.id, job.state
      from retoma.batches as batch
     cross join lateral (
           select job.id, job.state
             from retoma.jobs as job
            where job.batch_id = batch.id
              and job.state in ('queued', 'running')
              and (job.state = 'queued' or job.cancel_requested_at is null)
            limit %(limit)s::integer
              for no key update skip locked) as job
     where batch.state = 'cancelled'
       and (batch.unfinished > 0 or batch.finishing in ('waiting', 'open'))
       and batch.operation_id is null
     limit %(limit)s::integer
),
-- include: called_off
-- include: tell
select asked.id, asked.state from asked;

-- name: hold_jobs
-- Locks a piece of the jobs, those apart that another transaction has locked. What a command then decides by (a discard,
-- an error, a checkpoint) is read by its next statement, under the lock.
-- include: candidates
held as materialized (
    select job.id
      from candidate
      join retoma.jobs as job on job.id = candidate.id
     where job.state = any (%(states)s::text[])
     order by job.id
       for no key update of job skip locked
)
select held.id from held;

-- name: retry_failed
-- Only failed jobs (and cancelled ones, when asked) get new attempts; their checkpoints are kept. With a fingerprint,
-- only one error group. Failures that a person has settled stay. A piece that runs later visits only jobs that
-- had ended when the command was given. Those that the caller has not locked are visited again.
-- include: candidates
fitting as materialized (
    select job.id
      from candidate
      join retoma.jobs as job on job.id = candidate.id
     where (%(until)s::timestamptz is null or job.finished_at <= %(until)s::timestamptz)
       and not
-- include: discarded
       and (%(fingerprint)s::text is null or
-- include: fingerprint
            = %(fingerprint)s::text)
),
wanted as materialized (
    select job.id, job.state
      from fitting
      join retoma.jobs as job on job.id = fitting.id
     where job.state = any (%(states)s::text[])
       and job.id = any (%(held)s::bigint[])
     order by job.id
       for no key update of job skip locked
),
queued as (
    -- Set every column that the constraints check: PostgreSQL checks them first against an older row version.
    update retoma.jobs as job
       set state = 'queued',
           reason = null,
           run_at = now(),
           expires_at = null,
           max_attempts = job.attempt + coalesce(%(attempts)s::integer, greatest(job.max_attempts - job.attempt, 1)),
           retried_fence = job.fence,
           crashes = 0,
           alone = false,
           worker_id = null,
           claim_token = null,
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
-- include: reckon
story as (
    -- The later of the two events says who asked for it.
    insert into retoma.events (batch_id, seq, kind, data)
    select decided.id, decided.event_seq + 1, 'jobs',
           json_strip_nulls(json_build_object('jobs', decided.jobs,
                                              'by', case when decided.state = decided.was then %(by)s::text end))
      from decided
    union all
    select decided.id, decided.event_seq + 2, decided.state,
           json_strip_nulls(json_build_object('before', decided.was, 'why', 'retried', 'by', %(by)s::text))
      from decided
     where decided.state <> decided.was
),
-- include: beckon
select candidate.id, queued.id is not null as moved, queued.id is not null or fitting.id is null as settled,
       (select count(*) from hint) as hints
  from candidate
  left join fitting on fitting.id = candidate.id
  left join queued on queued.id = candidate.id
 order by candidate.id;

-- name: restart
-- Start over, a bounded piece at a time: checkpoints are set aside, and the jobs are queued as if they had never run. A
-- running job is taken from its worker; the fence rejects what that worker still writes.
-- include: candidates
wanted as materialized (
    select job.id, job.state, job.fence, job.attempt, job.worker_id, job.claimed_at
      from candidate
      join retoma.jobs as job on job.id = candidate.id
     order by job.id
       for no key update of job skip locked
),
aside as (
    update retoma.checkpoints as checkpoint
       set set_aside_at = now(),
           reason = 'restart'
      from wanted
     where checkpoint.job_id = wanted.id
       and checkpoint.set_aside_at is null
),
unheard as (
    delete from retoma.signals as signal using wanted where signal.job_id = wanted.id
),
written as (
    insert into retoma.attempts (job_id, fence, attempt, worker_id, ending, reason, claimed_at)
    select wanted.id, wanted.fence, wanted.attempt, wanted.worker_id, 'released', 'restart', wanted.claimed_at
      from wanted
     where wanted.state = 'running'
),
freed as (
    update retoma.slots as slot
       set job_id = null
      from wanted
     where wanted.state = 'running'
       and slot.job_id = wanted.id
),
queued as (
    update retoma.jobs as job
       set state = 'queued',
           reason = 'restart',
           run_at = now(),
           expires_at = null,
           attempt = 0,
           retried_fence = job.fence,
           restarted_fence = job.fence,
           crashes = 0,
           alone = false,
           worker_id = null,
           claim_token = null,
           cancel_requested_at = null,
           finished_at = null,
           output = null,
           error = null,
           cohort = (select batch.cohort from retoma.batches as batch where batch.id = %(id)s::bigint)
      from wanted
     where job.id = wanted.id
    returning job.id, job.batch_id, job.key, wanted.state as was, job.state
),
moved as (
    select queued.batch_id, queued.id, queued.key, queued.was, queued.state, null::real as seconds from queued
),
-- include: tell
select candidate.id, queued.id is not null as moved, queued.id is not null as settled
  from candidate
  left join queued on queued.id = candidate.id
 order by candidate.id;

-- name: has
-- Whether the batch has a job in one of these states, failures that a person has settled apart.
select exists (select
                 from unnest(%(states)s::text[]) as wanted (state)
                 join retoma.jobs as job on job.batch_id = %(id)s::bigint and job.state = wanted.state
                where not
-- include: discarded
              ) as has;

-- name: reopen
-- Revives the row of an ended batch when many of its jobs are about to be retried. A last step that was open is open
-- again, because it may be that no job comes back.
with wanted as materialized (
    select batch.id, batch.lane_id, batch.pilot_lane_id, batch.finish_lane_id, batch.finishing, batch.held_at,
           batch.queue, batch.state, batch.event_seq, batch.failures, batch.total - batch.unfinished as ended
      from retoma.batches as batch
     where batch.id = %(id)s::bigint
       and batch.state in ('completed', 'failed', 'cancelled')
       and batch.total is not null
       for no key update
),
reopened as (
    update retoma.batches as batch
       set state = 'running',
           was = wanted.state,
           reason = null,
           cause = null,
           forgiven = wanted.failures,
           forgiven_of = wanted.ended,
           started_at = coalesce(batch.started_at, now()),
           finished_at = null,
           last_progress_at = now(),
           epoch = batch.epoch + 1,
           event_seq = wanted.event_seq + 1
      from wanted
     where batch.id = wanted.id
),
opened as (
    update retoma.lanes as lane
       set closed_at = case when wanted.held_at is not null and lane.id = wanted.lane_id then lane.closed_at end
      from wanted
     where lane.id in (wanted.lane_id, wanted.pilot_lane_id)
        or lane.id = wanted.finish_lane_id and wanted.finishing = 'open'
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select wanted.id, wanted.event_seq + 1, 'running',
           json_strip_nulls(json_build_object('before', wanted.state, 'why', 'retried', 'by', %(by)s::text))
      from wanted
)
select wanted.id, pg_notify('retoma', wanted.queue)::text as hint from wanted;

-- name: settle
-- Detaches a finished operation from its batch, or notes that the job of its last step has followed; when nothing is
-- left to do by then, the batch is completed. The last step opens when its turn has come.
with counted as materialized (
    select batch.id, batch.state, batch.unfinished, batch.event_seq, batch.was, batch.stalled_at, batch.finished_at,
           batch.sealed_at, batch.reason, batch.lane_id, batch.pilot_lane_id, batch.held_at, batch.queue,
           case when %(followed)s::boolean then batch.operation_id end as operation_id,
           case when batch.finish_job_id is not null then batch.finish_owed and not %(followed)s::boolean end
               as finish_owed,
           batch.finishing, batch.finish_run, batch.finish_slack, batch.finish_well, batch.finish_lane_id
      from retoma.batches as batch
     where batch.id = %(id)s::bigint
       and (not %(followed)s::boolean or batch.pruned_at is null)
       for no key update
),
held as materialized (
    select counted.*, last.turn,
           case when counted.state in ('queued', 'running', 'stalled', 'paused') and counted.sealed_at is not null
                     and counted.unfinished = 0 and counted.operation_id is null
                     and (last.turn is null or last.turn in ('ended', 'failed'))
                then case when last.turn = 'failed' then 'failed' else 'completed' end
                -- A program that does not know last steps has completed it.
                when counted.state = 'completed' and last.turn in ('waiting', 'open') then 'running'
                else counted.state end as becomes
      from counted
     cross join lateral (
           select case when counted.state in ('failed', 'cancelled') then counted.finishing else
-- include: last_step
                       end as turn) as last
),
settled as (
    update retoma.batches as batch
       set operation_id = held.operation_id,
           state = held.becomes,
           was = case when held.becomes <> held.state then held.state else held.was end,
           reason = case when held.becomes = held.state then held.reason
                         when held.becomes = 'failed' then 'finish' end,
           unfinished = held.unfinished,
           stalled_at = case when held.becomes = held.state then held.stalled_at end,
           finished_at = case when held.becomes = held.state then held.finished_at
                              when held.becomes in ('completed', 'failed') then now() end,
           epoch = batch.epoch + (held.becomes <> held.state)::integer,
           event_seq = held.event_seq + (held.becomes <> held.state)::integer,
           finishing = held.turn,
           finish_owed = held.finish_owed or held.turn = 'ended' and held.finishing = 'waiting'
      from held
     where batch.id = held.id
    returning batch.id, batch.state
),
lanes as (
    update retoma.lanes as lane
       set closed_at = case when held.becomes in ('completed', 'failed')
                              or lane.id = held.finish_lane_id
                                 and (held.turn <> 'open' or held.becomes not in ('queued', 'running', 'stalled'))
                              or held.held_at is not null and lane.id = held.lane_id
                            then coalesce(lane.closed_at, now()) end,
           awake = true,
           wake_at = null
      from held
     where lane.id = held.finish_lane_id and (held.turn <> held.finishing or held.becomes <> held.state)
        or held.becomes <> held.state and lane.id in (held.lane_id, held.pilot_lane_id)
    returning case when lane.id = held.finish_lane_id and held.turn = 'open' then pg_notify('retoma', held.queue) end
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select held.id, held.event_seq + 1, held.becomes,
           json_strip_nulls(json_build_object(
               'before', held.state, 'why', case when held.becomes in ('failed', 'running') then 'finish' end))
      from held
     where held.becomes <> held.state
)
select settled.id, settled.state from settled;

-- name: owing
-- Batches whose last step needs a hand: its job must run once more, or must not run. And, as a safety net, those whose
-- last step should be open and is not. Whoever has locked one is about to look after it, and the others, which need
-- nothing, are not locked.
select batch.id, batch.finish_job_id as job_id, batch.finishing, batch.finish_owed as owed
  from retoma.batches as batch
 cross join lateral (
       select batch.unfinished, batch.operation_id, batch.finishing, batch.finish_owed, batch.finish_run,
              batch.finish_slack, batch.finish_well) as counted
 where (batch.finishing in ('waiting', 'open') or batch.finish_owed)
   and (%(ids)s::bigint[] is null or batch.id = any (%(ids)s::bigint[]))
   and (batch.state in ('queued', 'running', 'stalled', 'paused', 'completed')
        or batch.finishing in ('ended', 'failed'))
   and batch.pruned_at is null
   and (batch.finish_owed
        or batch.state = 'completed'
        or batch.finishing is distinct from
-- include: last_step
       )
 order by batch.id
 limit %(limit)s::integer
   for no key update of batch skip locked;

-- name: dismiss
-- The last step has nothing to work on, and its job ends without having run.
with wanted as materialized (
    select job.id
      from retoma.jobs as job
     where job.id = %(job_id)s::bigint
       and job.batch_id = %(id)s::bigint
       and job.state = 'queued'
       for no key update skip locked
),
asked as (
    update retoma.jobs as job
       set state = 'cancelled',
           reason = 'nothing to work on',
           worker_id = null,
           claim_token = null,
           finished_at = now()
      from wanted
     where job.id = wanted.id
    returning job.id, job.batch_id, job.key, job.state
),
moved as (
    select asked.batch_id, asked.id, asked.key, 'queued' as was, asked.state, null::real as seconds from asked
),
-- include: tell
select asked.id from asked;

-- name: restarted
-- The row of a batch that starts over: its resumes are restored, and it may get another configuration.
with wanted as materialized (
    select batch.id, batch.lane_id, batch.pilot_lane_id, batch.held_at, batch.queue, batch.state, batch.event_seq,
           batch.cohort, exists (select from retoma.cohorts as cohort where cohort.batch_id = batch.id) as planned
      from retoma.batches as batch
     where batch.id = %(id)s::bigint
       and batch.state in ('completed', 'failed', 'cancelled')
       and batch.total is not null
       for no key update
),
planned as (
    -- One that was re-planned keeps the rows of its configurations, so another one has its row, too.
    insert into retoma.cohorts (batch_id, number, configuration, planned_by)
    select wanted.id, wanted.cohort + 1, %(configuration)s::json, %(by)s::text
      from wanted
     where wanted.planned
       and %(configuration)s::json is not null
),
anew as (
    update retoma.batches as batch
       set state = 'running',
           was = wanted.state,
           reason = null,
           cause = null,
           resumes = 0,
           forgiven = 0,
           forgiven_of = 0,
           configuration = coalesce(%(configuration)s::json, batch.configuration),
           cohort = batch.cohort + (%(configuration)s::json is not null and wanted.planned)::integer,
           started_at = now(),
           finished_at = null,
           last_progress_at = now(),
           epoch = batch.epoch + 1,
           event_seq = wanted.event_seq + 1
      from wanted
     where batch.id = wanted.id
),
opened as (
    update retoma.lanes as lane
       set closed_at = case when wanted.held_at is not null and lane.id = wanted.lane_id then lane.closed_at end,
           awake = true,
           wake_at = null
      from wanted
     where lane.id in (wanted.lane_id, wanted.pilot_lane_id)
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select wanted.id, wanted.event_seq + 1, 'running',
           json_strip_nulls(json_build_object('before', wanted.state, 'why', 'restarted', 'by', %(by)s::text,
                                              'configuration', %(configuration)s::json is not null))
      from wanted
)
select wanted.id, pg_notify('retoma', wanted.queue)::text as hint from wanted;

-- name: change
-- What may be changed while it is unfinished. A column that is not named in *given* stays, and one
-- given as null is lifted.
with wanted as materialized (
    select batch.id, batch.event_seq
      from retoma.batches as batch
     where batch.id = %(id)s::bigint
       for no key update
),
changed as (
    update retoma.batches as batch
       set name = coalesce(%(name)s::text, batch.name),
           labels = coalesce(%(labels)s::jsonb, batch.labels),
           max_resumes = coalesce(%(max_resumes)s::integer, batch.max_resumes),
           max_failure_rate = case when 'max_failure_rate' = any (%(given)s::text[])
                                   then %(max_failure_rate)s::real
                                   else batch.max_failure_rate end,
           stall_seconds = coalesce(%(stall_seconds)s::real, batch.stall_seconds),
           budget = case when 'budget' = any (%(given)s::text[]) then %(budget)s::numeric else batch.budget end,
           epoch = batch.epoch + 1,
           event_seq = wanted.event_seq + 1
      from wanted
     where batch.id = wanted.id
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select wanted.id, wanted.event_seq + 1, 'changed', %(told)s::json from wanted
)
select wanted.id from wanted;

-- name: stall
-- Nothing progresses, and the diagnosis says why. Applies only if the batch is unchanged since the diagnosis.
with wanted as materialized (
    select batch.id, batch.event_seq
      from retoma.batches as batch
     where batch.id = %(id)s::bigint
       and batch.state = 'running'
       and batch.epoch = %(epoch)s::integer
       and batch.event_seq = %(event_seq)s::bigint
       for no key update skip locked
),
stalled as (
    update retoma.batches as batch
       set state = 'stalled',
           was = 'running',
           reason = %(verdict)s::text,
           cause = %(cause)s::json,
           stalled_at = now(),
           looked_at = now(),
           epoch = batch.epoch + 1,
           event_seq = wanted.event_seq + 1
      from wanted
     where batch.id = wanted.id
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select wanted.id, wanted.event_seq + 1, 'stalled',
           json_build_object('before', 'running', 'why', %(verdict)s::text, 'cause', %(cause)s::json)
      from wanted
)
select wanted.id from wanted;

-- name: recall
-- Still stalled, now for another reason: replace the reason without counting a new stall.
update retoma.batches as batch
   set reason = %(verdict)s::text,
       cause = %(cause)s::json
 where batch.id = %(id)s::bigint
   and batch.state = 'stalled'
   and batch.epoch = %(epoch)s::integer
   and batch.event_seq = %(event_seq)s::bigint
returning batch.id;

-- name: give_up
-- Stalled again with every resume used, reported a round ago, and still silent: the batch fails for good. What is done
-- stays done. For a single batch, only if it is unchanged since the diagnosis.
with wanted as materialized (
    select batch.id, batch.lane_id, batch.pilot_lane_id, batch.finish_lane_id, batch.event_seq, batch.resumes
      from retoma.batches as batch
     where batch.state = 'stalled'
       and batch.resumes >= batch.max_resumes
       and (%(id)s::bigint is null or batch.id = %(id)s::bigint)
       and (%(event_seq)s::bigint is null or batch.event_seq = %(event_seq)s::bigint)
       and batch.stalled_at <= now() - make_interval(secs => %(round)s::float8)
     order by batch.id
     limit 100
       for no key update skip locked
),
failed as (
    update retoma.batches as batch
       set state = 'failed',
           was = 'stalled',
           reason = 'resumes',
           stalled_at = null,
           finished_at = now(),
           epoch = batch.epoch + 1,
           event_seq = wanted.event_seq + 1
      from wanted
     where batch.id = wanted.id
),
closed as (
    update retoma.lanes as lane
       set closed_at = now()
      from wanted
     where lane.id in (wanted.lane_id, wanted.pilot_lane_id, wanted.finish_lane_id)
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select wanted.id, wanted.event_seq + 1, 'failed',
           json_build_object('before', 'stalled', 'why', 'resumes', 'resumes', wanted.resumes)
      from wanted
)
select wanted.id from wanted;

-- name: advance
-- A stalled batch in which a step was saved since: it progresses by itself, and no resume is counted. Where its
-- provider was the cause, only an answer counts as progress: documents whose first steps need no provider would
-- be postponed as well.
with wanted as materialized (
    select batch.id, batch.event_seq
      from retoma.batches as batch
     where batch.state = 'stalled'
       and case when batch.reason in ('provider_down', 'rate_limited')
                then exists (select
                               from retoma.calls as call
                              where call.batch_id = batch.id
                                and call.state = 'answered'
                                and call.answered_at > batch.stalled_at)
                else exists (select
                               from retoma.jobs as job
                               join retoma.checkpoints as checkpoint on checkpoint.job_id = job.id
                              where job.batch_id = batch.id
                                and job.state = 'running'
                                and checkpoint.saved_at > batch.stalled_at) end
     order by batch.id
     limit 100
       for no key update of batch skip locked
),
moving as (
    update retoma.batches as batch
       set state = 'running',
           was = 'stalled',
           reason = null,
           cause = null,
           stalled_at = null,
           last_progress_at = now(),
           epoch = batch.epoch + 1,
           event_seq = wanted.event_seq + 1
      from wanted
     where batch.id = wanted.id
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select wanted.id, wanted.event_seq + 1, 'running', json_build_object('before', 'stalled', 'why', 'advanced')
      from wanted
)
select wanted.id from wanted;

-- name: unsealed
-- Opened long ago and never sealed: the program that filled them is gone. They are locked, so that the count that
-- follows sees all their jobs; a batch that is being filled or sealed at this moment is left to the next round.
select batch.id
  from retoma.batches as batch
 where batch.sealed_at is null
   and batch.expires_at < now()
   and batch.state = 'queued'
 order by batch.id
 limit 100
   for no key update skip locked;

-- name: silent
-- Running batches in which no job has ended for as long as they allow; those with the oldest check come first. The
-- check is noted at once, so that a hundred batches that sleep for days do not hide others, and two concurrent rounds
-- check different batches.
with quiet as materialized (
    select batch.id
      from retoma.batches as batch
     where batch.state in ('running', 'stalled')
       and batch.last_progress_at < now() - make_interval(secs => batch.stall_seconds)
     order by batch.looked_at nulls first, batch.id
     limit %(limit)s::integer
       for no key update skip locked
)
update retoma.batches as batch
   set looked_at = now()
  from quiet
 where batch.id = quiet.id
returning batch.id;

-- name: resting_for
-- Paused batches whose reason is gone.
select batch.id
  from retoma.batches as batch
 where batch.state = 'paused'
   and batch.reason = any (%(reasons)s::text[])
 order by batch.id
 limit 1000;

-- name: one
select batch.id, batch.name, batch.pipeline, batch.queue, batch.route, batch.labels::text as labels,
       batch.configuration::text as configuration, batch.correlation_id, batch.state, batch.reason,
       batch.cause::text as cause, batch.total, batch.unfinished, batch.failures, batch.resumes, batch.max_resumes,
       batch.max_failure_rate, batch.budget, batch.spent, batch.stall_seconds, batch.epoch, batch.event_seq,
       batch.created_at, batch.sealed_at, batch.expires_at, batch.started_at, batch.stalled_at, batch.finished_at,
       batch.last_progress_at, batch.last_key, batch.operation_id, batch.unpriced, batch.held_at,
-- include: last_step_told
       , batch.cohort
  from retoma.batches as batch
 where batch.id = %(id)s::bigint
   and batch.pruned_at is null;

-- name: page
-- Newest first, after a cursor; a filter that is null does not apply. A list reads no configurations.
select batch.id, batch.name, batch.pipeline, batch.queue, batch.route, batch.labels::text as labels,
       '{}' as configuration, batch.correlation_id, batch.state, batch.reason,
       batch.cause::text as cause, batch.total, batch.unfinished, batch.failures, batch.resumes, batch.max_resumes,
       batch.max_failure_rate, batch.budget, batch.spent, batch.stall_seconds, batch.epoch, batch.event_seq,
       batch.created_at, batch.sealed_at, batch.expires_at, batch.started_at, batch.stalled_at, batch.finished_at,
       batch.last_progress_at, batch.last_key, batch.operation_id, batch.unpriced, batch.held_at,
-- include: last_step_told
       , batch.cohort
  from retoma.batches as batch
 where (%(states)s::text[] is null or batch.state = any (%(states)s::text[]))
   and (%(pipeline)s::text is null or batch.pipeline = %(pipeline)s::text)
   and (%(labels)s::jsonb is null or batch.labels @> %(labels)s::jsonb)
   and (%(name)s::text is null or batch.name = %(name)s::text)
   and (%(text)s::text is null or strpos(lower(batch.name), lower(%(text)s::text)) > 0)
   and (%(before)s::bigint is null or batch.id < %(before)s::bigint)
   and batch.pruned_at is null
 order by batch.id desc
 limit %(limit)s::integer;

-- name: progress
-- Everything in one snapshot: the counts are computed from the jobs, so they cannot drift.
select batch.id, batch.name, batch.state, batch.reason, coalesce(batch.total, counts.all_jobs) as total,
       counts.queued, counts.running, counts.completed, counts.skipped, counts.failed, counts.review,
       counts.cancelled, batch.resumes, batch.max_resumes, batch.last_progress_at, batch.last_key,
-- include: paces
       , batch.busy_seconds, batch.spent, batch.budget, batch.stall_seconds, batch.created_at, batch.started_at,
       batch.stalled_at, batch.finished_at, batch.epoch, batch.event_seq, now() as now, batch.unpriced,
-- include: last_step_told
       , (select count(*)
            from retoma.jobs as job
           where job.batch_id = batch.id
             and job.id is distinct from batch.finish_job_id
             and
-- include: discarded
         )::integer as discarded
  from retoma.batches as batch
 cross join lateral (
       select coalesce(sum(job.jobs), 0)::integer as all_jobs,
              coalesce(sum(job.jobs) filter (where job.state = 'queued'), 0)::integer as queued,
              coalesce(sum(job.jobs) filter (where job.state = 'running'), 0)::integer as running,
              coalesce(sum(job.jobs) filter (where job.state = 'completed'), 0)::integer as completed,
              coalesce(sum(job.jobs) filter (where job.state = 'skipped'), 0)::integer as skipped,
              coalesce(sum(job.jobs) filter (where job.state = 'failed'), 0)::integer as failed,
              coalesce(sum(job.jobs) filter (where job.state = 'review'), 0)::integer as review,
              coalesce(sum(job.jobs) filter (where job.state = 'cancelled'), 0)::integer as cancelled
         from (select job.state, count(*) as jobs
                 from retoma.jobs as job
                where job.batch_id = batch.id
                  and job.id is distinct from batch.finish_job_id
                group by job.state) as job) as counts
 where batch.id = %(id)s::bigint
   and batch.pruned_at is null;

-- name: steps
-- Step by step: how often it was done, how long it takes, how long jobs waited before it, and how many unfinished jobs
-- have got this far. The values of a map count as one step.
with saved as materialized (
    select checkpoint.job_id,
           regexp_replace(checkpoint.step, '/[^/]*$', '/*') as step,
           checkpoint.seconds, checkpoint.saved_at, job.state,
           -- From the step before, or from when the job was queued, until this step began.
           extract(epoch from checkpoint.saved_at - make_interval(secs => coalesce(checkpoint.seconds, 0))
                              - lag(checkpoint.saved_at, 1, job.created_at)
                                    over (partition by checkpoint.job_id order by checkpoint.saved_at))::float8 as wait
      from retoma.jobs as job
      join retoma.checkpoints as checkpoint on checkpoint.job_id = job.id
                                           and checkpoint.set_aside_at is null
     where job.batch_id = %(id)s::bigint
-- include: but_the_last_step
),
furthest as (
    select distinct on (saved.job_id) saved.step
      from saved
     where saved.state in ('queued', 'running')
     order by saved.job_id, saved.saved_at desc
)
select saved.step, count(*)::integer as done, count(distinct saved.job_id)::integer as jobs,
       (select count(*) from furthest where furthest.step = saved.step)::integer as here,
       percentile_cont(0.5) within group (order by saved.seconds)::float8 as median_seconds,
       percentile_cont(0.95) within group (order by saved.seconds)::float8 as slow_seconds,
       percentile_cont(0.5) within group (order by greatest(saved.wait, 0))::float8 as wait_seconds
  from saved
 group by saved.step
 order by min(saved.saved_at);

-- name: durations
-- How long successful attempts took, from the claim to the end, and how many there were.
select count(*)::integer as jobs,
       avg(attempt.seconds)::float8 as mean,
       percentile_cont(0.5) within group (order by attempt.seconds)::float8 as median,
       percentile_cont(0.95) within group (order by attempt.seconds)::float8 as slow,
       max(attempt.seconds)::float8 as slowest
  from retoma.jobs as job
  join retoma.attempts as attempt on attempt.job_id = job.id
 where job.batch_id = %(id)s::bigint
-- include: but_the_last_step
   and attempt.ending in ('completed', 'skipped', 'review');

-- name: errors
-- Failures that nobody has settled, grouped by the fingerprint of their error message.
select
-- include: fingerprint
       as fingerprint,
       (array_agg(split_part(job.error, E'\n', 1) order by job.id))[1] as example,
       (array_agg(job.reason order by job.id))[1] as reason,
       count(*)::integer as jobs,
       (array_agg(job.id order by job.id))[1:5] as first_jobs,
       (array_agg(coalesce(job.key, job.id::text) order by job.id))[1:5] as first_keys,
       max(job.finished_at) as last_at
  from retoma.jobs as job
 where job.batch_id = %(id)s::bigint
   and job.state = 'failed'
   and not
-- include: discarded
-- include: but_the_last_step
 group by 1
 order by jobs desc, fingerprint;

-- name: evidence
-- The facts from which the stall of a batch is diagnosed.
with batch as materialized (
    select batch.*,
           -- Whether only its last step is left, and so which pipeline its workers must serve.
           batch.unfinished = 0 and coalesce(batch.finishing in ('waiting', 'open'), false) as last,
           case when batch.unfinished = 0 and batch.finishing in ('waiting', 'open') then batch.finish ->> 'pipeline'
                else batch.pipeline end as served
      from retoma.batches as batch
     where batch.id = %(id)s::bigint
),
open_jobs as materialized (
    select job.*, worker.label, worker.seen_at, worker.lease_expires_at, worker.stopped_at as worker_stopped_at
      from batch
      join retoma.jobs as job on job.batch_id = batch.id and job.state = 'running'
      left join retoma.workers as worker on worker.id = job.worker_id
),
waiting as materialized (
    select count(*)::integer as queued,
           count(*) filter (where job.run_at <= now())::integer as due,
           count(*) filter (where job.troubled)::integer as troubled,
           min(job.run_at) filter (where job.run_at > now()) as next_run_at,
           min(job.run_at) filter (where job.run_at <= now() and not job.troubled) as oldest_due_at
      from (select job.run_at,
-- include: troubled
                   as troubled
              from batch
              join retoma.jobs as job on job.batch_id = batch.id and job.state = 'queued'
             -- Those that are held behind a pilot wait for a person, and the last step waits for the others.
             where (batch.held_at is null or job.lane_id <> batch.lane_id)
               and (job.lane_id is distinct from batch.finish_lane_id or batch.finishing = 'open')) as job
),
bad as materialized (
    -- How attempts ended since the last progress, of jobs that have not reached a wait of their own since.
    select attempt.ending, attempt.reason, split_part(attempt.error, E'\n', 1) as error, attempt.ended_at,
           extract(epoch from attempt.ended_at - attempt.claimed_at)::float8 as seconds
      from batch
      join retoma.jobs as job on job.batch_id = batch.id and job.state in ('queued', 'running') and job.fence > 0
      join retoma.attempts as attempt on attempt.job_id = job.id
     where attempt.ended_at > batch.last_progress_at
       and attempt.ending not in ('released', 'postponed', 'waiting')
       and not exists (select
                         from retoma.attempts as later
                        where later.job_id = attempt.job_id
                          and later.fence > attempt.fence
                          and (later.ending = 'waiting' or later.ending = 'postponed' and later.reason = 'sleeping'))
),
live as materialized (
    -- How long the jobs have run whose workers are alive.
    select extract(epoch from now() - open_jobs.claimed_at)::float8 as seconds
      from open_jobs
     where open_jobs.lease_expires_at >= now()
       and open_jobs.worker_stopped_at is null
),
asked as materialized (
    select call.provider, call.model, call.state, call.status, call.error, call.asked_at, call.id
      from batch
      join retoma.calls as call on call.batch_id = batch.id
     order by call.id desc
     limit 1000
),
failed_call as materialized (
    select asked.status, split_part(asked.error, E'\n', 1) as error
      from asked
     where asked.error is not null
     order by asked.id desc
     limit 1
),
shut as materialized (
    -- The limit that its last calls wait for: the provider asked for a pause, or failed too often.
    select bucket.name, greatest(bucket.cooled_until, bucket.opened_until) as until,
           bucket.opened_until is not null as broken
      from (select distinct asked.provider, asked.provider || '/' || asked.model as model from asked
             union
            select distinct substr(job.reason, 10), substr(job.reason, 10)
              from batch
              join retoma.jobs as job on job.batch_id = batch.id and job.state = 'queued'
             where job.reason like 'limited: %%') as used
      join retoma.limits as bucket
        on bucket.name in (used.provider, used.model)
        or starts_with(bucket.name, used.model || '/')
     where bucket.cooled_until > now()
        or bucket.opened_until is not null
     order by broken desc, until desc
     limit 1
),
worst as materialized (
    -- The most common error among the failed jobs of an ended batch.
    select (array_agg(coalesce(split_part(job.error, E'\n', 1), job.reason)))[1] as error, count(*)::integer as jobs
      from (select job.error, job.reason
              from batch
              join retoma.jobs as job on job.batch_id = batch.id and job.state = 'failed'
             where batch.state in ('completed', 'failed')
               and job.id is distinct from batch.finish_job_id
             limit 10000) as job
     group by
-- include: fingerprint
     order by jobs desc, error
     limit 3
)
select batch.state, batch.reason, batch.queue, batch.served as pipeline, batch.sealed_at, batch.started_at,
       batch.last_progress_at, batch.stall_seconds, batch.epoch, batch.event_seq, batch.budget, batch.spent,
       batch.last_key, batch.resumes, batch.max_resumes, batch.unfinished, batch.failures,
       (select queue.paused_reason from retoma.queues as queue
         where queue.name = batch.queue and
-- include: rests
       ) as queue_paused,
       waiting.queued, waiting.due, waiting.oldest_due_at, waiting.troubled, waiting.next_run_at,
       (select job.reason from retoma.jobs as job
         where job.batch_id = batch.id and job.state = 'queued' and job.run_at = waiting.next_run_at limit 1)
           as next_reason,
       (select count(*) from open_jobs)::integer as running,
       (select count(*) from open_jobs
         where open_jobs.lease_expires_at < now() or open_jobs.worker_stopped_at is not null)::integer as orphaned,
       (select open_jobs.label from open_jobs where open_jobs.lease_expires_at < now()
         order by open_jobs.id limit 1) as lost_worker,
       (select min(open_jobs.seen_at) from open_jobs where open_jobs.lease_expires_at < now()) as lost_at,
       -- Where attempts keep failing, a job that has only just started proves nothing: it may fail the same way.
       (select min(live.seconds)
          from live
         where live.seconds > case when waiting.troubled > 0 or exists (select from bad)
                                   then greatest((select max(bad.seconds) from bad), least(5, batch.stall_seconds / 2))
                                   else 0 end) as outlived_seconds,
       (select coalesce(open_jobs.key, open_jobs.id::text) from open_jobs
         order by open_jobs.claimed_at limit 1) as oldest_key,
       (select max(extract(epoch from now() - open_jobs.claimed_at)) from open_jobs)::float8 as oldest_seconds,
       (select max(checkpoint.saved_at) from open_jobs
          join retoma.checkpoints as checkpoint on checkpoint.job_id = open_jobs.id) as last_step_at,
       (select max(attempt.seconds)
          from (select attempt.seconds
                  from retoma.jobs as job
                  join retoma.attempts as attempt on attempt.job_id = job.id and attempt.ending = 'completed'
                 where job.batch_id = batch.id and job.state = 'completed'
                   -- The jobs say nothing of how long the last step may take.
                   and not batch.last
                 limit 1000) as attempt)::float8 as slowest_seconds,
       (select count(*) from retoma.workers as worker
         where worker.stopped_at is null and worker.lease_expires_at > now() and worker.stopping_at is null
           and batch.queue = any (worker.queues) and batch.served = any (worker.pipelines))::integer as workers,
       (select count(*) from retoma.workers as worker
         where worker.stopped_at is null and worker.lease_expires_at > now() and worker.stopping_at is null
           and batch.queue = any (worker.queues) and batch.served = any (worker.pipelines)
           and worker.at_once > (select count(*) from retoma.jobs as job
                                  where job.worker_id = worker.id and job.state = 'running'))::integer as idle_workers,
       (select count(*) from bad)::integer as bad_endings,
       (select bad.ending from bad group by bad.ending order by count(*) desc, 1 limit 1) as bad_ending,
       (select bad.reason from bad order by bad.ended_at desc limit 1) as bad_reason,
       (select bad.error from bad order by bad.ended_at desc limit 1) as bad_error,
       (select coalesce(job.key, job.id::text)
          from retoma.jobs as job
         where job.batch_id = batch.id and job.crashes > 0 and job.state in ('queued', 'running')
         order by job.crashes desc, job.id limit 1) as suspect_key,
       (select max(job.crashes) from retoma.jobs as job
         where job.batch_id = batch.id and job.crashes > 0 and job.state in ('queued', 'running'))::integer
           as suspect_crashes,
       (select shut.name from shut) as shut_limit,
       (select shut.until from shut) as shut_until,
       coalesce((select shut.broken from shut), false) as shut_broken,
       (select extract(epoch from max(asked.asked_at) - min(asked.asked_at)) from asked
         where asked.status = 429 and asked.asked_at > batch.last_progress_at)::float8 as limited_seconds,
       (select failed_call.status from failed_call) as call_status,
       (select failed_call.error from failed_call) as call_error,
       (select json_agg(json_build_object('error', left(worst.error, 300), 'jobs', worst.jobs)) from worst)::text as worst,
       batch.cause::text as cause,
       now() as now,
       batch.held_at is not null as held,
       batch.finishing, batch.finish_job_id, batch.finish ->> 'pipeline' as finish_pipeline,
       (select coalesce(split_part(job.error, E'\n', 1), job.reason)
          from retoma.jobs as job
         where job.id = batch.finish_job_id and batch.finishing = 'failed') as finish_error
  from batch
 cross join waiting;

-- name: plan
-- What a resume would find: jobs that are done, jobs that continue from a checkpoint, jobs that start
-- from the first step.
select count(*) filter (where job.state in ('completed', 'skipped', 'review'))::integer as done,
       count(*) filter (where job.state in ('queued', 'running') and saved.steps > 0)::integer as continued,
       count(*) filter (where job.state in ('queued', 'running') and saved.steps is null)::integer as begun,
       count(*) filter (where job.state = 'failed' and job.reason is distinct from 'quarantine')::integer as failed,
       count(*) filter (where job.state = 'failed' and job.reason = 'quarantine')::integer as quarantined,
       count(*) filter (where job.state = 'cancelled')::integer as cancelled,
       count(*) filter (where job.crashes > 0 and job.state in ('queued', 'running'))::integer as suspects,
       coalesce(sum(saved.steps) filter (where job.state in ('queued', 'running')), 0)::integer as steps_kept,
       coalesce(sum(saved.seconds) filter (where job.state in ('queued', 'running')), 0)::float8 as seconds_kept,
       coalesce(sum(attempt.seconds) filter (where job.state in ('completed', 'skipped', 'review')), 0)::float8
           as seconds_done,
       avg(attempt.seconds) filter (where job.state in ('completed', 'skipped', 'review'))::float8 as seconds_each
  from retoma.jobs as job
  left join lateral (
       select count(*) as steps, sum(checkpoint.seconds) as seconds
         from retoma.checkpoints as checkpoint
        where checkpoint.job_id = job.id
          and checkpoint.set_aside_at is null
          and job.state in ('queued', 'running')
       having count(*) > 0) as saved on true
  left join lateral (
       select sum(attempt.seconds) as seconds
         from retoma.attempts as attempt
        where attempt.job_id = job.id
          and attempt.ending in ('completed', 'skipped', 'review')) as attempt on true
 where job.batch_id = %(id)s::bigint
-- include: but_the_last_step
;

-- name: results
-- What the jobs of a batch gave, in the order of their inputs, after a cursor: their outputs, and what some of their
-- steps saved. The job of its last step is not among them. Each state is read along the index on the jobs of a batch.
with found as materialized (
    select job.*
      from unnest(%(states)s::text[]) as wanted (state)
     cross join lateral (
           select job.id, job.key, job.state, job.reason, job.output
             from retoma.jobs as job
            where job.batch_id = %(id)s::bigint
              and job.state = wanted.state
              and job.id > %(after)s::bigint
-- include: but_the_last_step
            order by job.id
            limit %(limit)s::integer) as job
     order by job.id
     limit %(limit)s::integer
)
select found.id as job_id, found.key, found.state, found.reason, found.output::text as output,
       (select json_object_agg(checkpoint.step, checkpoint.value)
          from retoma.checkpoints as checkpoint
         where checkpoint.job_id = found.id
           and checkpoint.set_aside_at is null
           and checkpoint.step = any (%(steps)s::text[]))::text as saved
  from found
 order by found.id;

-- name: events
-- In order, after a cursor; with or without those that only name jobs.
select event.seq, event.kind, event.at, event.data::text as data
  from retoma.events as event
 where event.batch_id = %(id)s::bigint
   and event.seq > %(after)s::bigint
   and (%(jobs)s::boolean or event.kind <> 'jobs')
 order by event.seq
 limit %(limit)s::integer;

-- name: pipelines
-- The pipeline of each of many batches; missing batches are left out.
select batch.id, batch.pipeline
  from retoma.batches as batch
 where batch.id = any (%(ids)s::bigint[])
   and batch.pruned_at is null;

-- name: news
-- The events of many batches at once, each after its own cursor.
select event.batch_id, event.seq, event.kind, event.at, event.data::text as data
  from unnest(%(ids)s::bigint[], %(after)s::bigint[]) as wanted (batch_id, after)
 cross join lateral (
       select event.batch_id, event.seq, event.kind, event.at, event.data
         from retoma.events as event
        where event.batch_id = wanted.batch_id
          and event.seq > wanted.after
        order by event.seq
        limit %(limit)s::integer) as event
 order by event.batch_id, event.seq;

-- name: hint
-- Every listener holds the lock in shared mode: when we can acquire it exclusively nobody listens, and nothing is sent.
-- The hint itself need not be flushed to disk before it goes out; what it announces is.
select case when pg_try_advisory_xact_lock(%(listening)s::bigint) then false
            when set_config('synchronous_commit', 'off', true) = 'off'
            then pg_notify('retoma_batches', %(ids)s::text) is not null
       end as heard;

-- name: configuration
-- The one of a cohort; in a batch that was never re-planned, its only one.
select coalesce(cohort.configuration, batch.configuration)::text as configuration, batch.traceparent
  from retoma.batches as batch
  left join retoma.cohorts as cohort on cohort.batch_id = batch.id and cohort.number = %(cohort)s::integer
 where batch.id = %(id)s::bigint;

-- name: replanned
-- Another configuration for the jobs that have not begun. The one before it gets its row, too.
with wanted as materialized (
    select batch.id, batch.cohort, batch.configuration, batch.created_at, batch.event_seq
      from retoma.batches as batch
     where batch.id = %(id)s::bigint
       and batch.state in ('queued', 'running', 'paused', 'stalled')
       and batch.sealed_at is not null
       for no key update
),
before as (
    insert into retoma.cohorts (batch_id, number, configuration, since)
    select wanted.id, wanted.cohort, wanted.configuration, wanted.created_at from wanted
    on conflict (batch_id, number) do nothing
),
planned as (
    insert into retoma.cohorts (batch_id, number, configuration, planned_by, note)
    select wanted.id, wanted.cohort + 1, %(configuration)s::json, %(by)s::text, %(note)s::text from wanted
),
changed as (
    update retoma.batches as batch
       set cohort = wanted.cohort + 1,
           configuration = %(configuration)s::json,
           epoch = batch.epoch + 1,
           event_seq = wanted.event_seq + 1
      from wanted
     where batch.id = wanted.id
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select wanted.id, wanted.event_seq + 1, 'replanned',
           json_strip_nulls(json_build_object('cohort', wanted.cohort + 1, 'by', %(by)s::text))
      from wanted
)
select wanted.cohort + 1 as cohort from wanted;

-- name: replan
-- Gives a piece of the waiting jobs to the newest cohort: those that have saved no step and asked nobody. A job that the
-- caller has not locked, because it is being claimed, is visited again; by then it runs, and keeps its configuration. The
-- last step goes along, uncounted.
-- include: candidates
fitting as materialized (
    select job.id
      from candidate
      join retoma.jobs as job on job.id = candidate.id
     where not exists (select from retoma.checkpoints as checkpoint
                        where checkpoint.job_id = job.id and checkpoint.set_aside_at is null)
       and not exists (select from retoma.calls as call where call.job_id = job.id)
),
wanted as materialized (
    select job.id
      from fitting
      join retoma.jobs as job on job.id = fitting.id
     where job.state = any (%(states)s::text[])
       and job.id = any (%(held)s::bigint[])
     order by job.id
       for no key update of job skip locked
),
given as (
    update retoma.jobs as job
       set cohort = %(cohort)s::smallint
      from wanted
     where job.id = wanted.id
    returning job.id
)
select candidate.id, given.id is not null and given.id is distinct from batch.finish_job_id as moved,
       given.id is not null or fitting.id is null as settled
  from candidate
 cross join (select finish_job_id from retoma.batches where id = %(id)s::bigint) as batch
  left join fitting on fitting.id = candidate.id
  left join given on given.id = candidate.id
 order by candidate.id;

-- name: cohorts
-- The configurations of a batch, and how the jobs went that ran under each. Undone decisions and sendings back count for
-- nothing.
with listed as materialized (
    select cohort.number, cohort.since, cohort.planned_by, cohort.note, cohort.configuration
      from retoma.cohorts as cohort
     where cohort.batch_id = %(id)s::bigint
    union all
    select batch.cohort, batch.created_at, null, null, batch.configuration
      from retoma.batches as batch
     where batch.id = %(id)s::bigint
       and not exists (select from retoma.cohorts as cohort where cohort.batch_id = batch.id)
),
counted as materialized (
    select job.cohort as number,
           count(*)::integer as jobs,
           (count(*) filter (where job.state in ('queued', 'running')))::integer as unfinished,
           (count(*) filter (where job.state in ('completed', 'skipped')))::integer as completed,
           (count(*) filter (where job.state = 'failed'))::integer as failed,
           (count(*) filter (where job.state = 'review'))::integer as review,
           (count(*) filter (where job.state = 'cancelled'))::integer as cancelled
      from retoma.jobs as job
     where job.batch_id = %(id)s::bigint
-- include: but_the_last_step
     group by job.cohort
),
worked as materialized (
    select job.cohort as number, avg(attempt.seconds)::float8 as mean,
           percentile_cont(0.5) within group (order by attempt.seconds)::float8 as median
      from retoma.jobs as job
      join retoma.attempts as attempt on attempt.job_id = job.id
     where job.batch_id = %(id)s::bigint
-- include: but_the_last_step
       and attempt.ending in ('completed', 'skipped', 'review')
     group by job.cohort
),
paid as materialized (
    select job.cohort as number, sum(call.cost) as cost,
           (count(*) filter (where call.cost is null and call.cost_basis is not null))::integer as unpriced
      from retoma.calls as call
      join retoma.jobs as job on job.id = call.job_id
     where call.batch_id = %(id)s::bigint
-- include: but_the_last_step
     group by job.cohort
),
doubted as materialized (
    select job.cohort as number, count(distinct review.job_id)::integer as jobs
      from retoma.jobs as job
      join retoma.reviews as review on review.job_id = job.id
     where job.batch_id = %(id)s::bigint
       and review.state <> 'gone'
     group by job.cohort
),
judged as materialized (
    select job.cohort as number, count(*)::integer as decided,
           (count(*) filter (where decision.kind = 'accept'))::integer as agreed
      from retoma.decisions as decision
      join retoma.jobs as job on job.id = decision.job_id
     where decision.batch_id = %(id)s::bigint
       and decision.kind in ('accept', 'correct', 'reject')
       and not exists (select from retoma.decisions as undo where undo.undoes = decision.id)
     group by job.cohort
)
select listed.number, listed.since, listed.planned_by, listed.note, listed.configuration::text as configuration,
       coalesce(counted.jobs, 0) as jobs, coalesce(counted.unfinished, 0) as unfinished,
       coalesce(counted.completed, 0) as completed, coalesce(counted.failed, 0) as failed,
       coalesce(counted.review, 0) as review, coalesce(counted.cancelled, 0) as cancelled,
       worked.mean as mean_seconds, worked.median as median_seconds, coalesce(paid.cost, 0) as cost,
       coalesce(paid.unpriced, 0) as unpriced, coalesce(doubted.jobs, 0) as doubted,
       coalesce(judged.decided, 0) as decided, coalesce(judged.agreed, 0) as agreed
  from listed
  left join counted on counted.number = listed.number
  left join worked on worked.number = listed.number
  left join paid on paid.number = listed.number
  left join doubted on doubted.number = listed.number
  left join judged on judged.number = listed.number
 order by listed.number;

-- name: end_waiting
-- Batches that failed longer ago than the retention: their waiting jobs are cancelled, a bounded piece at a time, so
-- that the whole batch can be deleted.
with old as materialized (
    select batch.id
      from retoma.batches as batch
     where batch.finished_at < now() - make_interval(secs => %(older_than)s::float8)
       and batch.state = 'failed'
       and (batch.unfinished > 0 or batch.finishing in ('waiting', 'open'))
       and batch.operation_id is null
       and batch.pruned_at is null
     order by batch.finished_at, batch.id
     limit 100
),
wanted as materialized (
    select job.id, job.state
      from old
     cross join lateral (
           select job.id, job.state
             from retoma.jobs as job
            where job.batch_id = old.id
              and job.state in ('queued', 'running')
              and (job.state = 'queued' or job.cancel_requested_at is null)
            limit %(limit)s::integer
              for no key update skip locked) as job
     limit %(limit)s::integer
),
-- include: called_off
-- include: tell
select asked.id, asked.state from asked;

-- name: retire
-- Batches that ended long ago and have no unfinished job: from here on they are invisible and accept no command, so
-- that they can be deleted in pieces. The lock excludes every command that is about to revive one.
with old as materialized (
    select batch.id
      from retoma.batches as batch
     where batch.finished_at < now() - make_interval(secs => %(older_than)s::float8)
       and batch.unfinished = 0
       and (batch.finishing is null or batch.finishing in ('ended', 'failed') or batch.finish_owed)
       and batch.operation_id is null
       and batch.pruned_at is null
     order by batch.finished_at, batch.id
     limit %(limit)s::integer
       for update skip locked
)
update retoma.batches as batch
   set pruned_at = now()
  from old
 where batch.id = old.id
returning batch.id;

-- name: prune
-- Batches that are being deleted: jobs first, then events, a bounded piece at a time, then the row and the rest.
with old as materialized (
    select batch.id, batch.lane_id, batch.pilot_lane_id, batch.finish_lane_id
      from retoma.batches as batch
     where batch.pruned_at is not null
     order by batch.pruned_at, batch.id
     limit 100
       for update skip locked
),
old_jobs as materialized (
    select job.id
      from old
     cross join lateral (
           select job.id
             from retoma.jobs as job
            where job.batch_id = old.id
            limit %(limit)s::integer
              for update skip locked) as job
     limit %(limit)s::integer
),
gone_attempts as (delete from retoma.attempts as attempt using old_jobs where attempt.job_id = old_jobs.id),
gone_checkpoints as (
    delete from retoma.checkpoints as checkpoint using old_jobs where checkpoint.job_id = old_jobs.id),
gone_signals as (delete from retoma.signals as signal using old_jobs where signal.job_id = old_jobs.id),
gone_reviews as (delete from retoma.reviews as review using old_jobs where review.job_id = old_jobs.id),
gone_decisions as (delete from retoma.decisions as decision using old_jobs where decision.job_id = old_jobs.id),
gone_discards as (delete from retoma.discards as discard using old_jobs where discard.job_id = old_jobs.id),
gone_jobs as (delete from retoma.jobs as job using old_jobs where job.id = old_jobs.id returning job.id),
silent as materialized (
    select old.id, old.lane_id, old.pilot_lane_id, old.finish_lane_id
      from old
     where not exists (select from retoma.jobs as job where job.batch_id = old.id)
),
old_events as materialized (
    select event.batch_id, event.seq
      from silent
     cross join lateral (
           select event.batch_id, event.seq
             from retoma.events as event
            where event.batch_id = silent.id
            order by event.seq
            limit %(limit)s::integer) as event
     limit %(limit)s::integer
),
gone_events as (
    delete from retoma.events as event
     using old_events
     where (event.batch_id, event.seq) = (old_events.batch_id, old_events.seq)
    returning event.batch_id
),
empty as materialized (
    select silent.id, silent.lane_id, silent.pilot_lane_id, silent.finish_lane_id
      from silent
     where not exists (select from retoma.events as event where event.batch_id = silent.id)
),
gone_operations as (delete from retoma.operations as operation using empty where operation.batch_id = empty.id),
gone_cohorts as (delete from retoma.cohorts as cohort using empty where cohort.batch_id = empty.id),
gone_lanes as (
    delete from retoma.lanes as lane using empty where lane.id in (empty.lane_id, empty.pilot_lane_id, empty.finish_lane_id)),
gone as (delete from retoma.batches as batch using empty where batch.id = empty.id returning batch.id)
select gone_jobs.id, 'job' as what from gone_jobs
union all
select gone_events.batch_id, 'event' as what from gone_events
union all
select gone.id, 'batch' as what from gone;
