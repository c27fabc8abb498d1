-- Parts that several statements have in common; "-- include: name" puts one in its place.

-- name: endings
-- What attempts said about their end, as far as the jobs themselves go.
with said as materialized (
    select said.*,
           said.ending in ('completed', 'skipped', 'review', 'cancelled')
               or said.ending = 'failed' and not said.again as final,
           said.ending in ('postponed', 'waiting', 'released')
               -- A handler that takes the database away from itself each time must come to an end.
               and (said.error is null or said.reason is distinct from 'database'
                    or (select count(*) from retoma.attempts as attempt
                         where attempt.job_id = said.id
                           and attempt.reason = 'database'
                           and attempt.error is not null) < %(most_outages)s::integer) as free
      from unnest(%(ids)s::bigint[], %(fences)s::bigint[], %(endings)s::text[], %(again)s::boolean[],
                  %(delays)s::float8[], %(untils)s::timestamptz[], %(outputs)s::text[], %(reasons)s::text[],
                  %(errors)s::text[], %(steps)s::text[], %(signals)s::integer[], %(seconds)s::real[])
           as said (id, fence, ending, again, delay, until, output, reason, error, step, signals, seconds)
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
    returning job.id, job.batch_id, job.key, job.state, job.attempt + said.free::integer as attempt,
              job.claimed_at, said.fence, said.ending, said.reason, said.error, said.step, said.seconds
),
written as (
    insert into retoma.attempts (job_id, fence, attempt, worker_id, ending, reason, error, step, claimed_at, seconds)
    select ended.id, ended.fence, ended.attempt, %(worker_id)s::bigint, ended.ending, ended.reason, ended.error,
           ended.step, ended.claimed_at, ended.seconds
      from ended
),

-- name: head
            (select job.crashes
               from retoma.jobs as job
              where job.state = 'queued'
                and job.queue = visited.queue
                and job.lane_id = visited.lane_id
                and job.run_at <= now()
                and (job.expires_at is null or job.expires_at > now())
                and job.pipeline = any (%(pipelines)s::text[])
              order by job.priority, job.run_at, job.id
              limit 1) >= %(alone_from)s::integer

-- name: tell
-- What happened to jobs (in "moved") is told in the rows of their batches and in their stories. The batch's row is
-- locked after the jobs, in the order of the ids, and read as it is under the lock: so the count of what is left is
-- exact, the last to end completes the batch, and the numbers of the story have neither gaps nor doubles. Commands
-- that hold a batch and want its jobs skip the ones that are locked: nobody waits in a ring.
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
           coalesce(sum(moved.seconds), 0) as seconds
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
    select batch.id, batch.state as was, batch.was as before, batch.lane_id, batch.total, batch.event_seq,
           batch.sealed_at, batch.stalled_at, batch.finished_at, batch.max_failure_rate, batch.last_progress_at,
           -- Until it is sealed nothing is counted: the seal counts them all.
           case when batch.sealed_at is null then 0 else batch.unfinished - news.ended + news.revived end
               as unfinished,
           case when batch.sealed_at is null then 0 else batch.failures + news.failed end as failures,
           -- Whoever tries jobs again has seen what failed: the failure policy counts from there.
           case when batch.sealed_at is not null and news.revived > 0 then batch.failures + news.failed else batch.forgiven end as forgiven,
           case when batch.sealed_at is not null and news.revived > 0
                then batch.total - (batch.unfinished - news.ended + news.revived)
                else batch.forgiven_of end as forgiven_of,
           batch.busy_seconds + news.seconds as busy_seconds,
           -- How much ended lately: counts that fade with a minute and with five.
           exp(-least(extract(epoch from now() - batch.paced_at) / 60, 700)::float8) as fade_minute,
           exp(-least(extract(epoch from now() - batch.paced_at) / 300, 700)::float8) as fade_five,
           batch.pace_minute, batch.pace_five,
           news.jobs, news.ended, news.revived, news.last_key
      from held_batch as batch
      join news on news.batch_id = batch.id
),
decided as materialized (
    select counted.*,
           case when counted.revived > 0 and counted.was in ('completed', 'failed', 'cancelled') then 'running'
                when counted.was in ('completed', 'failed', 'cancelled') then counted.was
                when counted.sealed_at is not null and counted.unfinished = 0 then 'completed'
                -- The first twenty (or all, when there are fewer) weigh as much as they would together.
                when counted.was in ('running', 'stalled')
                     and counted.failures - counted.forgiven
                         > counted.max_failure_rate
                           * greatest(counted.total - counted.unfinished - counted.forgiven_of,
                                      least(counted.total, 20))
                then 'failed'
                when counted.was = 'stalled' and counted.ended > 0 then 'running'
                else counted.was
           end as state
      from counted
),
told as (
    -- What the constraints look at is set from the row as it was locked, all of it: PostgreSQL checks them first
    -- against the version that the statement's snapshot shows, and that may be older.
    update retoma.batches as batch
       set state = decided.state,
           was = case when decided.state = decided.was then decided.before else decided.was end,
           total = decided.total,
           sealed_at = decided.sealed_at,
           forgiven = decided.forgiven,
           forgiven_of = decided.forgiven_of,
           reason = case when decided.state = decided.was then batch.reason
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
           pace_minute = coalesce(decided.pace_minute * decided.fade_minute, 0) + decided.ended,
           pace_five = coalesce(decided.pace_five * decided.fade_five, 0) + decided.ended,
           paced_at = now()
      from decided
     where batch.id = decided.id
),
lane_of_batch as (
    update retoma.lanes as lane
       set closed_at = case when decided.state = 'failed' then now() end
      from decided
     where lane.id = decided.lane_id
       and (decided.state = 'failed' and decided.was <> 'failed'
            or decided.state = 'running' and decided.was in ('completed', 'failed', 'cancelled'))
),
story as (
    insert into retoma.events (batch_id, seq, kind, data)
    select decided.id, decided.event_seq + 1, 'jobs', json_build_object('jobs', decided.jobs)
      from decided
    union all
    select decided.id, decided.event_seq + 2, decided.state,
           json_build_object('before', decided.was,
                             'why', case when decided.state = 'failed' then 'failures'
                                         when decided.was = 'stalled' and decided.state = 'running' then 'advanced'
                                         when decided.revived > 0 then 'retried' end)
      from decided
     where decided.state <> decided.was
)

-- name: fingerprint
            -- What is the same in the words of errors that are the same: the first line without quotes, the names of
            -- files and numbers.
            substr(md5(regexp_replace(
                regexp_replace(split_part(coalesce(job.error, job.reason, ''), E'\n', 1),
                               '''[^'']*''|"[^"]*"|[^[:space:]:]+\.[[:alnum:]]{2,4}\y', '…', 'g'),
                '[0-9a-fA-F-]*[0-9][0-9a-fA-F-]*', '#', 'g')), 1, 12)

-- name: purse
-- The batch that pays for a call is locked before the call is, by everybody: so nobody waits in a ring.
with purse as materialized (
    select batch.id
      from retoma.calls as call
      join retoma.batches as batch on batch.id = call.batch_id
     where call.id = %(id)s::bigint
       for no key update of batch
),
