-- Parts that several statements share; "-- include: name" inserts one.

-- name: endings
-- The endings that attempts report, as far as the jobs themselves are concerned.
with said as materialized (
    select said.*,
           said.ending in ('completed', 'skipped', 'review', 'cancelled')
               or said.ending = 'failed' and not said.again as final,
           said.ending in ('postponed', 'waiting', 'released')
               -- A handler that breaks its own database connection every time must fail in the end.
               and (said.error is null or said.reason is distinct from 'database'
                    or (select count(*) from retoma.attempts as attempt
                         where attempt.job_id = said.id
                           and attempt.reason = 'database'
                           and attempt.error is not null) < %(most_outages)s::integer) as free
      from unnest(%(ids)s::bigint[], %(fences)s::bigint[], %(endings)s::text[], %(again)s::boolean[],
                  %(delays)s::float8[], %(untils)s::timestamptz[], %(outputs)s::text[], %(reasons)s::text[],
                  %(errors)s::text[], %(steps)s::text[], %(signals)s::integer[], %(seconds)s::real[],
                  %(reviews)s::text[])
           as said (id, fence, ending, again, delay, until, output, reason, error, step, signals, seconds, review)
),
ended as (
    update retoma.jobs as job
       set state = case when said.final then said.ending
                        when not said.free and job.attempt >= job.max_attempts then 'failed'
                        when job.cancel_requested_at is not null then 'cancelled'
                        else 'queued'
                   end,
           reason = said.reason,
           run_at = case when said.final or not said.free and job.attempt >= job.max_attempts then job.run_at
                         when said.ending = 'waiting' and job.signals > said.signals then now()
                         else coalesce(said.until, now() + make_interval(secs => said.delay), job.run_at)
                    end,
           -- Only a prefetched job that never started still waits for its first worker, so only it keeps its expiry.
           expires_at = case when said.ending = 'released' and coalesce(said.seconds, 0) = 0 then job.expires_at end,
           attempt = job.attempt - said.free::integer,
           worker_id = null,
           claim_token = null,
           finished_at = case when said.final
                                or not said.free and job.attempt >= job.max_attempts
                                or job.cancel_requested_at is not null
                              then now() end,
           output = said.output::json,
           error = said.error
      from said
     where job.id = said.id
       and job.fence = said.fence
       and job.worker_id = %(worker_id)s::bigint
    returning job.id, job.batch_id, job.lane_id, job.key, job.state, job.attempt + said.free::integer as attempt,
              job.claimed_at, said.fence, said.ending, said.reason, said.error, said.step, said.seconds,
              job.pipeline, said.output as proposal, said.review
),
filed as (
    -- A job that a person must decide is filed for the review desk, with what its handler says about it.
    insert into retoma.reviews (source, item, job_id, fence, pipeline, batch_id, title, reason, proposal, label,
                                version, confidence, margin, evidence)
    select 'job', ended.id::text, ended.id, ended.fence, ended.pipeline, ended.batch_id,
           coalesce(ended.review::json ->> 'title', ended.key), ended.reason, ended.proposal::json,
           ended.review::json ->> 'label', ended.review::json ->> 'version',
           (ended.review::json ->> 'confidence')::real, (ended.review::json ->> 'margin')::real,
           ended.review::json -> 'evidence'
      from ended
     where ended.state = 'review'
    on conflict (source, item) do update
       set fence = excluded.fence,
           state = 'open',
           title = excluded.title,
           reason = excluded.reason,
           proposal = excluded.proposal,
           label = excluded.label,
           version = excluded.version,
           confidence = excluded.confidence,
           margin = excluded.margin,
           evidence = excluded.evidence,
           created_at = now(),
           settled_at = null,
           leased_by = null,
           leased_until = null,
           skipped_by = '{}'
),
sent_away as (
    -- A job that a provider postpones again is still waiting: update the attempt that recorded it.
    update retoma.attempts as attempt
       set fence = ended.fence,
           worker_id = %(worker_id)s::bigint,
           ended_at = now(),
           seconds = attempt.seconds + ended.seconds
      from ended
     where ended.ending = 'postponed'
       and ended.state = 'queued'
       and ended.reason like 'limited: %%'
       and attempt.job_id = ended.id
       and attempt.ending = 'postponed'
       and attempt.reason = ended.reason
       and attempt.fence = (select max(before.fence) from retoma.attempts as before where before.job_id = ended.id)
    returning attempt.job_id
),
written as (
    insert into retoma.attempts (job_id, fence, attempt, worker_id, ending, reason, error, step, claimed_at, seconds)
    select ended.id, ended.fence, ended.attempt, %(worker_id)s::bigint, ended.ending, ended.reason, ended.error,
           ended.step, ended.claimed_at, ended.seconds
      from ended
     where ended.id not in (select sent_away.job_id from sent_away)
),

-- name: watched
-- Whether any worker could reach the database since the last sweep. After a time without sweeps (an outage, a promoted
-- standby, a night in which nothing ran) every worker keeps as much of its lease as it had left then, and loses no job
-- now. This happens once per heartbeat of its own, so that a worker that stays silent is found however rare sweeps are.
-- Only sweeps count: the first worker that comes back sends a heartbeat before any check, and that heartbeat says
-- nothing about the time before. One sweep runs at a time; a concurrent one has nothing to do.
quiet as materialized (
    select duty.last_at as since,
           duty.last_at is not null
               and duty.last_at < now() - make_interval(secs => greatest(fleet.lease / 4, 1)) as long
      from retoma.duties as duty
     cross join (
           select min(worker.lease_seconds)::float8 as lease
             from retoma.workers as worker
            where worker.stopped_at is null) as fleet
     where duty.name = 'sweep'
       and (duty.last_at is null
            or duty.last_at <= now() - make_interval(secs => least(%(every)s::float8, fleet.lease / 8))
            -- The clock of a promoted standby may be behind.
            or duty.last_at > now() + interval '1 minute')
       for no key update of duty skip locked
),
silenced as materialized (
    select worker.id, quiet.since
      from retoma.workers as worker
     cross join quiet
     where quiet.long
       and worker.stopped_at is null
       and worker.spared_at is null
       and worker.lease_expires_at > quiet.since
),
patient as materialized (
    select worker.id, silenced.since
      from retoma.workers as worker
      join silenced on silenced.id = worker.id
     where worker.stopped_at is null
       and worker.spared_at is null
     order by worker.id
       for no key update of worker skip locked
),
spared as (
    update retoma.workers as worker
       set lease_expires_at = greatest(worker.lease_expires_at,
                                       now() + least(worker.lease_expires_at - patient.since,
                                                     make_interval(secs => worker.lease_seconds))),
           missing_since = null,
           spared_at = now()
      from patient
     where worker.id = patient.id
),
-- A worker whose row is locked at this moment is spared by the next check, so the sweep is not recorded yet.
swept as (
    update retoma.duties as duty
       set last_at = now(),
           taken_by = %(taken_by)s::text
      from quiet
     where duty.name = 'sweep'
       and (select count(*) from silenced) = (select count(*) from patient)
    returning duty.name
),

-- name: earlier
-- The crashes of a job that count beside one more: none, once the attempt that just died has saved a checkpoint. A step
-- that is named after the fence is another one in each attempt, and does not say that this one came further.
           select case when exists (select from retoma.checkpoints as checkpoint
                                     where checkpoint.job_id = job.id and checkpoint.fence = job.fence
                                       and right(checkpoint.step, length('/' || job.fence)) <> '/' || job.fence)
                       then 0 else job.crashes end as crashes

-- name: paces
-- How many jobs of "batch" ended lately: counts that decay over one minute and over five. A count that has decayed to
-- nothing is 0, because PostgreSQL refuses a product that is too small for its type.
           case when batch.pace_minute > 1e-100
                then batch.pace_minute * exp(-least(extract(epoch from now() - batch.paced_at) / 60, 400)::float8)
                when batch.paced_at is not null then 0 end as pace_minute,
           case when batch.pace_five > 1e-100
                then batch.pace_five * exp(-least(extract(epoch from now() - batch.paced_at) / 300, 400)::float8)
                when batch.paced_at is not null then 0 end as pace_five

-- name: held_hints
                select (lock.classid::bigint << 32) | lock.objid::bigint
                  from pg_locks as lock
                 where lock.locktype = 'advisory'
                   and lock.objsubid = 1
                   and lock.database = (select oid from pg_database where datname = current_database())

-- name: ahead
-- Whether a job that may run with others is before "job" in its line: then it is not yet its turn to run alone.
            exists (select
                      from retoma.jobs as ahead
                     where ahead.state = 'queued'
                       and ahead.queue = job.queue
                       and ahead.lane_id = job.lane_id
                       and ahead.pipeline = any (%(pipelines)s::text[])
                       and ahead.run_at <= now()
                       and (ahead.expires_at is null or ahead.expires_at > now())
                       and not (ahead.alone or ahead.crashes >= 2)
                       and (ahead.priority, ahead.run_at, ahead.id) < (job.priority, job.run_at, job.id))

-- name: strands
-- The waiting jobs of the lines in "visited", by pipeline and priority, and when the first of each is due. The scan
-- steps from one to the next along the index, so its cost does not grow with the number of jobs.
strand (queue, lane_id, pipeline, priority, run_at) as (
    select visited.queue, visited.lane_id, job.pipeline, job.priority, job.run_at
      from visited
     cross join lateral (
           select job.pipeline, job.priority, job.run_at
             from retoma.jobs as job
            where job.state = 'queued'
              and job.queue = visited.queue
              and job.lane_id = visited.lane_id
            order by job.pipeline, job.priority, job.run_at, job.id
            limit 1) as job
    union all
    select strand.queue, strand.lane_id, job.pipeline, job.priority, job.run_at
      from strand
     cross join lateral (
           select job.pipeline, job.priority, job.run_at
             from retoma.jobs as job
            where job.state = 'queued'
              and job.queue = strand.queue
              and job.lane_id = strand.lane_id
              and (job.pipeline, job.priority) > (strand.pipeline, strand.priority)
            order by job.pipeline, job.priority, job.run_at, job.id
            limit 1) as job
),

-- name: rouse
-- Lanes (in "into_lane") that receive jobs must be awake. They are locked until the jobs are visible. A statement that
-- puts a lane to rest, or removes it, locks it exclusively before it looks for jobs, so that no job is ever left in a
-- lane that no claim visits. Lanes come last in the lock order: jobs, batches, lanes.
lane_held as materialized (
    select lane.id, lane.awake
      from retoma.lanes as lane
     where lane.id in (select into_lane.lane_id from into_lane)
     order by lane.id
       for key share
),
lane_asleep as materialized (
    select lane.id
      from retoma.lanes as lane
     where lane.id in (select lane_held.id from lane_held where not lane_held.awake)
     order by lane.id
       for no key update
),
roused as (
    update retoma.lanes as lane
       set awake = true,
           wake_at = null
      from lane_asleep
     where lane.id = lane_asleep.id
)

-- name: open_queue
open_queue as materialized (
    select wanted.queue,
           max(wanted.after_lane) as after_lane,
           max(wanted.turned) as turned,
           coalesce(max(queue.weight), 1) as weight,
           greatest(64 / cardinality(%(queues)s::text[]), 8) as most
      from unnest(%(queues)s::text[], %(after_lanes)s::bigint[], %(turned)s::float8[])
           as wanted (queue, after_lane, turned)
      left join retoma.queues as queue on queue.name = wanted.queue
     where not coalesce(
-- include: rests
           , false)
       and exists (select from retoma.workers as worker
                    where worker.id = %(worker_id)s::bigint and worker.stopped_at is null)
     group by wanted.queue
),

-- name: lines
-- Of the lines in "visited", those with ready jobs and free slots, and the jobs that may be claimed from each.
due as materialized (
    select strand.queue, strand.lane_id, strand.pipeline, strand.priority
      from strand
     where strand.run_at <= now()
       and strand.pipeline = any (%(pipelines)s::text[])
),
line as materialized (
    select visited.queue, visited.lane_id, visited.after_lane, visited.turned, visited.weight, visited.step,
           lane.at_once,
           coalesce(places.beyond, 0) as beyond,
           case when lane.at_once is null then %(limit)s::integer else places.free end as room
      from visited
      left join retoma.lanes as lane on lane.id = visited.lane_id
      left join lateral (
           -- Jobs still running in slots above a lowered limit, or without a slot, count against it.
           select (select count(*)
                     from (select from retoma.slots as slot
                            where slot.lane_id = lane.id
                              and slot.place <= lane.at_once
                              and slot.job_id is null
                            limit %(limit)s::integer + beyond.jobs) as free)
                  - beyond.jobs as free,
                  beyond.jobs as beyond
             from (select (select count(*) from retoma.slots as above
                            where above.lane_id = lane.id
                              and above.place > lane.at_once
                              and above.job_id is not null)
                          + case when lane.unseated_since is null then 0
                                 else (select count(*) from retoma.jobs as job
                                        where job.state = 'running'
                                          and job.lane_id = lane.id
                                          and not exists (select from retoma.slots as slot
                                                           where slot.job_id = job.id)) end as jobs) as beyond
            where lane.at_once is not null) as places on true
     where lane.closed_at is null
       and (visited.queue, visited.lane_id) in (select due.queue, due.lane_id from due)
       and (lane.at_once is null or places.free > 0)
),
share as materialized (
    select case when count(*) <= 2 then %(limit)s::integer
                else ceil(2.0 * %(limit)s::integer / count(*))::integer end as jobs
      from line
),
ready as materialized (
    select line.queue, line.lane_id, line.after_lane, line.turned, line.weight, line.step, line.at_once,
           line.beyond, least(line.room, share.jobs) as room,
           job.id, job.priority, job.run_at,
           row_number() over (partition by line.queue, line.lane_id
                              order by job.priority, job.run_at, job.id) as turn
      from share
     cross join line
      join due on due.queue = line.queue and due.lane_id = line.lane_id
     cross join lateral (
           select job.id, job.priority, job.run_at
             from retoma.jobs as job
            where job.state = 'queued'
              and job.queue = line.queue
              and job.lane_id = line.lane_id
              and job.pipeline = due.pipeline
              and job.priority = due.priority
              and job.run_at <= now()
              and (job.expires_at is null or job.expires_at > now())
              and (job.alone or job.crashes >= 2) = %(suspects)s::boolean
            order by job.run_at, job.id
            limit least(line.room, share.jobs)
              for update skip locked) as job
),
free_slot as materialized (
    -- As many slots as there are jobs for them; the others are left to concurrent claims. Slots that must stay empty
    -- are locked too, so that no concurrent claim counts them.
    select wish.lane_id, slot.place,
           row_number() over (partition by wish.lane_id order by slot.place) - wish.beyond as turn
      from (select ready.lane_id, ready.at_once, ready.beyond, ready.room, count(*) as jobs
              from ready
             where ready.at_once is not null
             group by ready.lane_id, ready.at_once, ready.beyond, ready.room) as wish
     cross join lateral (
           select slot.place
             from retoma.slots as slot
            where slot.lane_id = wish.lane_id
              and slot.place <= wish.at_once
              and slot.job_id is null
            order by slot.place
            limit least(wish.room, wish.jobs) + wish.beyond
              for update skip locked) as slot
),
placed as materialized (
    select ready.*, free_slot.place as seat
      from ready
      left join free_slot on free_slot.lane_id = ready.lane_id and free_slot.turn = ready.turn
     where ready.turn <= ready.room
       and (ready.at_once is null or free_slot.place is not null)
),

-- name: take
-- The rest of a claim: as many of the jobs in "placed" as are wanted become this worker's, in turn.
in_turn as materialized (
    select placed.id, placed.lane_id, placed.step, placed.priority, placed.run_at, placed.seat,
           placed.turned + (row_number() over (partition by placed.queue
                                               order by placed.priority, placed.turn,
                                                        placed.lane_id <= placed.after_lane, placed.lane_id) - 1)::float8
                           / placed.weight as begins,
           1.0::float8 / placed.weight as takes
      from placed
),
pick as materialized (
    -- The queue whose next turn begins first; among equals, the job that has waited longest.
    select in_turn.*,
           row_number() over (order by in_turn.priority, in_turn.begins, in_turn.run_at, in_turn.id) as place
      from in_turn
     order by place
     limit %(limit)s::integer
),
claimed as (
    update retoma.jobs as job
       set state = 'running',
           reason = null,
           attempt = job.attempt + 1,
           fence = job.fence + 1,
           worker_id = %(worker_id)s::bigint,
           claim_token = %(claim_token)s::uuid,
           claimed_at = now() + pick.place * interval '1 microsecond'
      from pick
     where job.id = pick.id
    returning job.id, job.batch_id, job.queue, job.lane_id, job.pipeline, job.key, job.attempt, job.max_attempts,
              job.crashes, job.fence, job.signals, job.timeout_seconds, job.correlation_id, job.traceparent,
              job.input::text as input, job.cohort, job.priority, job.run_at, pick.step,
              pick.begins + pick.takes as turned, pick.place
)

-- name: start
-- What a claim also changes: it takes slots of lanes, and starts batches.
seated as (
    update retoma.slots as slot
       set job_id = pick.id
      from pick
     where slot.lane_id = pick.lane_id
       and slot.place = pick.seat
),
starting as materialized (
    -- The first claimed job starts its batch. (Later claims find it started and lock nothing.)
    select batch.id, batch.event_seq
      from retoma.batches as batch
     where batch.id in (select claimed.batch_id from claimed)
       and batch.state = 'queued'
     order by batch.id
       for no key update
),
started as (
    update retoma.batches as batch
       set state = 'running',
           was = 'queued',
           started_at = coalesce(batch.started_at, now()),
           last_progress_at = now(),
           paced_at = now(),
           epoch = batch.epoch + 1,
           event_seq = starting.event_seq + 1
      from starting
     where batch.id = starting.id
),
start_told as (
    insert into retoma.events (batch_id, seq, kind, data)
    select starting.id, starting.event_seq + 1, 'running', json_build_object('before', 'queued')
      from starting
)

-- name: candidates
-- Jobs of a batch in some states, a bounded number by id: after a cursor, or those that are named.
with candidate as materialized (
    select job.id
      from unnest(%(states)s::text[]) as wanted (state)
     cross join lateral (
           select job.id
             from retoma.jobs as job
            where job.batch_id = %(id)s::bigint
              and job.state = wanted.state
              and job.id > %(after)s::bigint
            order by job.id
            limit %(limit)s::integer) as job
     where %(ids)s::bigint[] is null
    union all
    select job.id
      from retoma.jobs as job
     where job.id = any (%(ids)s::bigint[])
       and job.batch_id = %(id)s::bigint
       and job.state = any (%(states)s::text[])
     order by 1
     limit %(limit)s::integer
),

-- name: called_off
-- Jobs of cancelled batches (in "wanted", locked): waiting jobs end now, running jobs are asked to stop. Every column
-- that the constraints check is set from the locked row: PostgreSQL checks them first against the row version of the
-- statement's snapshot, where a job that was just released still has its worker.
asked as (
    update retoma.jobs as job
       set state = case when wanted.state = 'queued' then 'cancelled' else job.state end,
           reason = case when wanted.state = 'queued' then 'batch' else job.reason end,
           worker_id = case when wanted.state = 'queued' then null else job.worker_id end,
           claim_token = case when wanted.state = 'queued' then null else job.claim_token end,
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

-- name: tell
-- Records what happened to the jobs in "moved" in the rows of their batches and in their events.
-- include: reckon
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select decided.id, decided.event_seq + 1, 'jobs', json_build_object('jobs', decided.jobs)
      from decided
    union all
    select decided.id, decided.event_seq + 2, decided.state,
           json_build_object('before', decided.was,
                             'why', case when decided.state = 'failed' and decided.turn = 'failed'
                                              and decided.unfinished = 0 then 'finish'
                                         when decided.state = 'failed' then 'failures'
                                         when decided.was = 'stalled' and decided.state = 'running' then 'advanced'
                                         when decided.revived > 0 then 'retried' end)
      from decided
     where decided.state <> decided.was
),
-- include: beckon

-- name: reckon
-- What the jobs in "moved" change in their batches (in "decided"). The batch's row is locked after the jobs, in id
-- order, and read under the lock. So the count of unfinished jobs is exact, the last job to end completes the batch,
-- and the event numbers have neither gaps nor duplicates. Commands that lock a batch and then want its jobs skip locked
-- jobs, so nothing deadlocks.
news as materialized (
    select moved.batch_id,
           json_agg(json_build_array(moved.id, moved.state) order by moved.id) as jobs,
           count(*) filter (where moved.was in ('queued', 'running') and moved.state not in ('queued', 'running'))
               as ended,
           count(*) filter (where moved.was not in ('queued', 'running') and moved.state in ('queued', 'running'))
               as revived,
           count(*) filter (where moved.state = 'failed') - count(*) filter (where moved.was = 'failed') as failed,
           (array_agg(coalesce(moved.key, moved.id::text) order by moved.id desc)
               filter (where moved.was in ('queued', 'running') and moved.state not in ('queued', 'running')))[1]
               as last_key,
           coalesce(sum(moved.seconds), 0) as seconds,
           count(*) filter (where moved.state in ('completed', 'skipped', 'review'))
               - count(*) filter (where moved.was in ('completed', 'skipped', 'review')) as well
      from moved
     where moved.batch_id is not null
     group by moved.batch_id
),
held_batch as materialized (
    select batch.*
      from retoma.batches as batch
     where batch.id in (select news.batch_id from news)
     order by batch.id
       for no key update
),
counted as materialized (
    select batch.id, batch.state as was, batch.was as before, batch.lane_id, batch.pilot_lane_id, batch.held_at,
           batch.total, batch.event_seq, batch.sealed_at, batch.stalled_at, batch.finished_at,
           batch.max_failure_rate, batch.last_progress_at, batch.operation_id,
           -- Nothing is counted before the batch is sealed: sealing counts all jobs.
           case when batch.sealed_at is null then 0 else batch.unfinished - other.ended + other.revived end
               as unfinished,
           case when batch.sealed_at is null then 0 else batch.failures + other.failed end as failures,
           -- The person who retries jobs has seen the failures: the failure policy counts from there.
           case when batch.sealed_at is not null and other.revived > 0 then batch.failures + other.failed else batch.forgiven end as forgiven,
           case when batch.sealed_at is not null and other.revived > 0
                then batch.total - (batch.unfinished - other.ended + other.revived)
                else batch.forgiven_of end as forgiven_of,
           batch.busy_seconds + news.seconds - coalesce(last.seconds, 0) as busy_seconds,
-- include: paces
           , news.jobs, news.ended, news.revived, other.ended as others_ended,
           case when other.ended > 0 then nullif(news.last_key, last.key) end as last_key,
           batch.finish_lane_id, batch.finishing as was_finishing, batch.finish_slack,
           -- Once other jobs come back, the last step waits for them and begins anew.
           case when other.revived > 0 and batch.finishing <> 'waiting' then 'waiting'
                when last.revived > 0 then 'waiting'
                when last.ended > 0 and last.state = 'failed' and batch.finishing <> 'waiting' then 'failed'
                when last.ended > 0 and (last.state = 'cancelled' or batch.finishing <> 'waiting') then 'ended'
                else batch.finishing end as finishing,
           case when other.revived > 0 and batch.finishing <> 'waiting' then true
                when last.ended > 0 and last.state = 'cancelled' then false
                else batch.finish_owed end as finish_owed,
           batch.finish_run + (other.revived > 0 and batch.finishing <> 'waiting')::integer as finish_run,
           batch.finish_well + other.well as finish_well
      from held_batch as batch
      join news on news.batch_id = batch.id
      left join lateral (
           -- What happened to the job of its last step, which is in none of its counts.
           select moved.key, moved.state, moved.seconds, (moved.state = 'failed')::integer - (moved.was = 'failed')::integer as failed,
                  (moved.was in ('queued', 'running') and moved.state not in ('queued', 'running'))::integer as ended,
                  (moved.was not in ('queued', 'running') and moved.state in ('queued', 'running'))::integer as revived,
                  (moved.state in ('completed', 'skipped', 'review'))::integer
                      - (moved.was in ('completed', 'skipped', 'review'))::integer as well
             from moved
            where batch.finish_job_id is not null
              and moved.id = batch.finish_job_id) as last on true
     cross join lateral (
           select news.ended - coalesce(last.ended, 0) as ended, news.revived - coalesce(last.revived, 0) as revived,
                  news.failed - coalesce(last.failed, 0) as failed, news.well - coalesce(last.well, 0) as well) as other
),
decided as materialized (
    select counted.*, last.turn,
           case when counted.revived > 0 and counted.was in ('completed', 'failed', 'cancelled') then 'running'
                when counted.was in ('completed', 'failed', 'cancelled') then counted.was
                -- While an operation still queues more of its jobs, the batch continues; the operation completes it
                -- if nothing is left.
                when counted.sealed_at is not null and counted.unfinished = 0 and counted.operation_id is null
                     and (last.turn is null or last.turn in ('ended', 'failed'))
                then case when last.turn = 'failed' then 'failed' else 'completed' end
                -- The rate is taken over twenty jobs at least (or all, when there are fewer), so that a single early
                -- failure does not exceed it.
                when counted.was in ('running', 'stalled')
                     and counted.unfinished > 0
                     and counted.failures - counted.forgiven
                         > counted.max_failure_rate
                           * greatest(counted.total - counted.unfinished - counted.forgiven_of,
                                      least(counted.total, 20))
                then 'failed'
                when counted.was = 'stalled' and counted.ended > 0 then 'running'
                else counted.was
           end as state
      from counted
     cross join lateral (
           select case when counted.revived = 0 and counted.was in ('completed', 'failed', 'cancelled')
                       then counted.finishing
                       else
-- include: last_step
                       end as turn) as last
),
told as (
    -- Set every column that the constraints check from the locked row: PostgreSQL checks them first against the row
    -- version of the statement's snapshot, which may be older.
    update retoma.batches as batch
       set state = decided.state,
           was = case when decided.state = decided.was then decided.before else decided.was end,
           total = decided.total,
           sealed_at = decided.sealed_at,
           forgiven = decided.forgiven,
           forgiven_of = decided.forgiven_of,
           reason = case when decided.state = decided.was then batch.reason
                         when decided.state = 'failed' and decided.turn = 'failed' and decided.unfinished = 0
                         then 'finish'
                         when decided.state = 'failed' then 'failures' end,
           cause = case when decided.state = 'running' and decided.was <> 'running' then null else batch.cause end,
           unfinished = decided.unfinished,
           failures = decided.failures,
           busy_seconds = decided.busy_seconds,
           started_at = case when decided.state = 'running' then coalesce(batch.started_at, now())
                             else batch.started_at end,
           stalled_at = case when decided.state = 'stalled' then decided.stalled_at end,
           finished_at = case when decided.state in ('completed', 'failed', 'cancelled')
                              then coalesce(decided.finished_at, now()) end,
           epoch = batch.epoch + (decided.state <> decided.was)::integer,
           event_seq = decided.event_seq + 1 + (decided.state <> decided.was)::integer,
           last_progress_at = case when decided.ended > 0 or decided.state = 'running' and decided.was <> 'running'
                                   then greatest(decided.last_progress_at, now())
                                   else decided.last_progress_at end,
           last_key = coalesce(decided.last_key, batch.last_key),
           pace_minute = coalesce(decided.pace_minute, 0) + decided.others_ended,
           pace_five = coalesce(decided.pace_five, 0) + decided.others_ended,
           paced_at = now(),
           finishing = decided.turn,
           -- A last step that has nothing to work on does not run: its job follows later.
           finish_owed = decided.finish_owed or decided.turn = 'ended' and decided.finishing = 'waiting',
           finish_run = decided.finish_run,
           finish_well = decided.finish_well
      from decided
     where batch.id = decided.id
),
shut_or_open as materialized (
    -- A batch with a pilot has two lanes; the first stays closed while the other jobs are held. The lane of its last
    -- step is open while that may be claimed.
    select own.lane_id,
           case when own.last then decided.turn <> 'open' or decided.state not in ('queued', 'running', 'stalled')
                else decided.state <> 'running' or decided.held_at is not null and own.lane_id = decided.lane_id end as shut,
           own.last
      from decided
     cross join lateral (values (decided.lane_id, false), (decided.pilot_lane_id, false),
                                (decided.finish_lane_id, true)) as own (lane_id, last)
     where own.lane_id is not null
       and (decided.state in ('completed', 'failed') and decided.was not in ('completed', 'failed', 'cancelled')
            or decided.state = 'running' and decided.was in ('completed', 'failed', 'cancelled')
            or own.last and decided.turn <> decided.was_finishing)
),
lane_of_batch as (
    -- No claim visits the lane of an ended batch.
    update retoma.lanes as lane
       set closed_at = case when shut_or_open.shut then now() end, awake = true, wake_at = null
      from shut_or_open
     where lane.id = shut_or_open.lane_id
    returning case when shut_or_open.last and not shut_or_open.shut then pg_notify('retoma', lane.queue) end
),

-- name: last_step
-- Where the last step of the batch in "counted" stands: it opens once enough of the other jobs have ended, unless more
-- of them are about to be queued. Where none of them ended well, it does not run. A later run waits for all of them.
           case when counted.finishing = 'waiting'
                     and not counted.finish_owed
                     and counted.operation_id is null
                     and counted.unfinished <= case when counted.finish_run = 1 then counted.finish_slack else 0 end
                     and (counted.finish_well > 0 or counted.unfinished = 0)
                then case when counted.finish_well > 0 then 'open' else 'ended' end
                else counted.finishing end

-- name: but_the_last_step
-- Of the jobs of a batch, those that people count: the job of its last step is shown by itself.
       and job.id is distinct from (select batch.finish_job_id from retoma.batches as batch where batch.id = %(id)s::bigint)

-- name: last_step_told
-- What people see of the last step of "batch".
       case when batch.finish is not null then (
           select json_build_object(
                      'pipeline', batch.finish ->> 'pipeline', 'job_id', batch.finish_job_id,
                      'state', case when coalesce(batch.finishing, 'waiting') = 'waiting' then 'waiting'
                                    else job.state end,
                      'run', coalesce(batch.finish_run, 1),
                      'waits_for', case when batch.finishing = 'waiting' and batch.finish_run = 1
                                        then greatest(batch.unfinished - batch.finish_slack, 0)
                                        when batch.finishing = 'waiting' then batch.unfinished
                                        else 0 end,
                      'reason', job.reason, 'steps', saved.steps, 'step', saved.step, 'seconds', worked.seconds,
                      'cost', coalesce(paid.cost, 0)::text)
             from (select) as always
             left join retoma.jobs as job on job.id = batch.finish_job_id
            cross join lateral (
                  select count(*) as steps, (array_agg(checkpoint.step order by checkpoint.saved_at desc))[1] as step
                    from retoma.checkpoints as checkpoint
                   where checkpoint.job_id = batch.finish_job_id
                     and checkpoint.set_aside_at is null) as saved
            cross join lateral (
                  select sum(attempt.seconds) as seconds
                    from retoma.attempts as attempt
                   where attempt.job_id = batch.finish_job_id) as worked
            cross join lateral (
                  select sum(call.cost) as cost
                    from retoma.calls as call
                   where call.job_id = batch.finish_job_id) as paid)::text end as finish

-- name: beckon
-- The lanes that jobs came back to are visited again.
into_lane as materialized (
    select distinct job.lane_id
      from moved
      join retoma.jobs as job on job.id = moved.id
     where moved.state = 'queued'
       and job.lane_id > 0
       and job.lane_id not in (select shut_or_open.lane_id from shut_or_open)
),
-- include: rouse

-- name: troubled
            -- Whether a job waits because something failed, or because a provider postponed it, and
            -- not by its own choice.
            (job.fence > 0
             and (job.error is not null
                  or coalesce(job.reason, '') = 'database'
                  or coalesce(job.reason, '')
                     like any (array['limited: %%', 'asked already: %%', 'budget: %%', 'refused by %%'])))

-- name: fingerprint
            -- A fingerprint for equal errors: the first line without quotes, file names and numbers. Only the beginning
            -- of a long line is used, because the replacements take quadratic time.
            substr(md5(regexp_replace(
                regexp_replace(left(split_part(coalesce(job.error, job.reason, ''), E'\n', 1), 500),
                               '''[^'']*''|"[^"]*"|[^[:space:]:]+\.[[:alnum:]]{2,4}\y', '…', 'g'),
                '[0-9a-fA-F-]*[0-9][0-9a-fA-F-]*', '#', 'g')), 1, 12)

-- name: discarded
            -- Whether a person has settled the failure of "job" as not to be retried.
            (job.state = 'failed'
             and exists (select from retoma.discards as discard
                          where discard.job_id = job.id and discard.failed_at = job.finished_at))

-- name: rests
            -- Whether "queue" is paused at this moment: one that is paused until a time goes on by itself.
            (queue.paused_at is not null and coalesce(queue.paused_until > now(), true))

-- name: fits
-- What a filter asks of "job", beside its state.
       and (%(pipeline)s::text is null or job.pipeline = %(pipeline)s::text)
       and (%(queue)s::text is null or job.queue = %(queue)s::text)
       and (%(batch_id)s::bigint is null or job.batch_id = %(batch_id)s::bigint)
       and (%(fingerprint)s::text is null
            or job.state in ('failed', 'cancelled') and
-- include: fingerprint
            = %(fingerprint)s::text)
       and (%(key_prefix)s::text is null or starts_with(job.key, %(key_prefix)s::text))
       and (%(created_after)s::timestamptz is null or job.created_at >= %(created_after)s::timestamptz)
       and (%(created_before)s::timestamptz is null or job.created_at < %(created_before)s::timestamptz)

-- name: matching
-- The jobs that a filter finds, a bounded number by id, after a cursor (in "matched"); of those that are named, any that
-- are left. The scan visits a bounded number of rows along one index, so that rare jobs cost no long statement.
with looked as materialized (
    select job.id
      from retoma.jobs as job
     where job.id = any (%(ids)s::bigint[])
       and job.id > %(after)s::bigint
       and job.id <= %(upto)s::bigint
    union all
    select found.id
      from unnest(%(states)s::text[]) as wanted (state)
     cross join lateral (
           select job.id
             from retoma.jobs as job
            where job.batch_id = %(batch_id)s::bigint
              and job.state = wanted.state
              and job.id > %(after)s::bigint
              and job.id <= %(upto)s::bigint
            order by job.id
            limit %(look)s::integer) as found
     where %(ids)s::bigint[] is null
       and %(batch_id)s::bigint is not null
    union all
    select found.id
      from unnest(%(states)s::text[]) as wanted (state)
     cross join lateral (
           select job.id
             from retoma.jobs as job
            where job.state = wanted.state
              and job.state in ('failed', 'review', 'cancelled', 'skipped')
              and job.id > %(after)s::bigint
              and job.id <= %(upto)s::bigint
            order by job.id
            limit %(look)s::integer) as found
     where %(ids)s::bigint[] is null
       and %(batch_id)s::bigint is null
       and %(states)s::text[] <@ array['failed', 'review', 'cancelled', 'skipped']
    union all
    select found.id
      from (select job.id
              from retoma.jobs as job
             where job.id > %(after)s::bigint
               and job.id <= %(upto)s::bigint
             order by job.id
             limit %(look)s::integer) as found
     where %(ids)s::bigint[] is null
       and %(batch_id)s::bigint is null
       and not %(states)s::text[] <@ array['failed', 'review', 'cancelled', 'skipped']
     order by 1
     limit %(look)s::integer
),
matched as materialized (
    select job.id
      from looked
      join retoma.jobs as job on job.id = looked.id
     where (%(ids)s::bigint[] is not null or job.state = any (%(states)s::text[]))
-- include: fits
     order by job.id
     limit %(limit)s::integer
),

-- name: verdict
-- Why an operation passes over "job" of "batch"; null when it does not.
           case when not job.state = any (%(states)s::text[]) then 'state'
                when job.queue = %(house)s::text then 'house'
                when batch.pruned_at is not null then 'pruned'
                when batch.operation_id is not null and %(kind)s::text in ('retry', 'restart', 'cancel') then 'busy'
                when job.finished_at > %(until)s::timestamptz then 'later'
                when %(kind)s::text in ('retry', 'restart', 'discard', 'reinstate')
                     and (%(kind)s::text <> 'reinstate') =
-- include: discarded
                then case when %(kind)s::text in ('retry', 'restart') then 'discarded' else 'already' end
                when %(kind)s::text = 'cancel' and job.cancel_requested_at is not null then 'already'
                when %(kind)s::text = 'priority' and job.priority = %(priority)s::integer then 'already'
                when %(kind)s::text = 'move' and job.queue = %(to_queue)s::text then 'already'
                when %(kind)s::text = 'move' and job.batch_id is not null then 'in_batch'
                when %(kind)s::text = 'move' and job.lane_id > 0 then 'in_lane'
           end

-- name: reached
-- Up to which job a piece has looked; null when there is nothing after it.
       case when (select count(*) from matched) = %(limit)s::integer then (select max(matched.id) from matched)
            when (select count(*) from looked) = %(look)s::integer then (select max(looked.id) from looked)
       end

-- name: purse
-- Every statement locks the batch that pays for a call before the call, so that nothing deadlocks.
with purse as materialized (
    select batch.id
      from retoma.calls as call
      join retoma.batches as batch on batch.id = call.batch_id
     where call.id = %(id)s::bigint
       for no key update of batch
),

-- name: outcome
-- What became of the money for a call.
           case when call.state = 'answered' and call.kind = 'first' then 'useful'
                when call.state = 'answered' then 'again'
                when call.state = 'failed' then 'lost'
                else 'doubtful'
           end as outcome,

-- name: every_price
       select price.provider, price.model, '' as tier, price.since, price.input, price.cached, price.cache_write,
              price.cache_write_1h, price.output, price.reasoning, price.audio_input, price.audio_output, price.unit,
              price.source
         from retoma.prices as price
        union all
       select price.provider, price.model, price.tier, price.since, price.input, price.cached, price.cache_write,
              price.cache_write_1h, price.output, price.reasoning, price.audio_input, price.audio_output, price.unit,
              price.source
         from retoma.tier_prices as price

-- name: forgotten_runs
-- What a schedule queued long ago: the newest twenty stay, one of which is written now.
forgotten as (
    delete from retoma.schedule_runs as run
     where run.schedule = %(name)s::text
       and run.job_id <= (select old.job_id
                            from retoma.schedule_runs as old
                           where old.schedule = %(name)s::text
                           order by old.job_id desc
                          offset 19
                           limit 1)
)

-- name: review_wanted
       (%(pipeline)s::text is null or review.pipeline = %(pipeline)s::text)
   and (%(pipelines)s::text[] is null or review.pipeline = any (%(pipelines)s::text[]))
   and (%(batch_id)s::bigint is null or review.batch_id = %(batch_id)s::bigint)
   and (%(label)s::text is null or review.label = %(label)s::text)
   and (%(sources)s::text[] is null or review.source = any (%(sources)s::text[]))

-- name: review_waits
       -- A job that was tried again or removed since does not wait here.
       (review.source <> 'job'
        or exists (select from retoma.jobs as job
                    where job.id = review.job_id and job.state = 'review' and job.fence = review.fence))

-- name: review_columns
       review.id, review.source, review.item, review.job_id, review.fence, review.pipeline, review.batch_id,
       review.state, review.title, review.reason, review.proposal::text as proposal, review.label, review.version,
       review.confidence, review.margin, review.evidence::text as evidence, review.created_at, review.settled_at,
       review.leased_by, review.leased_until

-- name: decision_columns
       decision.id, decision.key, decision.review_id, decision.source, decision.item, decision.job_id, decision.fence,
       decision.pipeline, decision.batch_id, decision.who, decision.name, decision.at, decision.kind,
       decision.proposed::text as proposed, decision.decided::text as decided, decision.label,
       decision.decided_label, decision.version, decision.confidence, decision.margin, decision.note,
       decision.seconds, decision.undoes,
       (select undo.id from retoma.decisions as undo where undo.undoes = decision.id) as undone_by

-- name: decision_wanted
       (%(pipeline)s::text is null or decision.pipeline = %(pipeline)s::text)
   and (%(pipelines)s::text[] is null or decision.pipeline = any (%(pipelines)s::text[]))
   and (%(batch_id)s::bigint is null or decision.batch_id = %(batch_id)s::bigint)
