-- Provider limits, shared by all workers. One short statement grants a slice for many calls at once.

-- name: take
-- Refills the bucket for the time that has passed, then grants what is asked for; or grants one request for a moment
-- later, which the bucket owes until then; or says how long to wait. A bucket holds a fortieth of a minute's allowance,
-- and at least one request. It is refilled at nineteen twentieths of the rate, so that no minute grants more than is
-- allowed, and requests that reach the provider a little late still fit. A rejected caller is assigned its own turn,
-- each a little earlier than the refill allows, so that a thousand waiting callers do not all ask again each second. A
-- provider that is cooling gets no request; one that failed too often gets one probe at a time.
with locked as materialized (
    -- The first name with a limit, else the first name. Take the lock before reading the clock: a caller that waited
    -- for the lock must not be refilled for time that the holder has already counted.
    select bucket.*
      from retoma.limits as bucket
     where bucket.name = any (%(names)s::text[])
       and (bucket.name = (%(names)s::text[])[1] or num_nonnulls(bucket.requests, bucket.tokens, bucket.at_once) > 0)
     order by num_nonnulls(bucket.requests, bucket.tokens, bucket.at_once) = 0,
              array_position(%(names)s::text[], bucket.name)
     limit 1
       for no key update
),
held as materialized (
    select bucket.*,
           clock.now as clock,
           pace.requests as requests_pace,
           pace.tokens as tokens_pace,
           bucket.tokens * 0.025 as most_tokens,
           case when bucket.requests is not null
                then least(greatest(1, bucket.requests * 0.025)::float8,
                           bucket.requests_left + back.requests + pace.requests * passed.seconds) end as requests_now,
           case when bucket.tokens is not null
                then least(bucket.tokens * 0.025,
                           bucket.tokens_left + back.tokens + pace.tokens * passed.seconds) end as tokens_now,
           (select coalesce(sum(permit.taken), 0)
              from retoma.permits as permit
              join retoma.workers as worker on worker.id = permit.worker_id
             where permit.name = bucket.name
               and permit.worker_id <> %(worker_id)s::bigint
               and worker.stopped_at is null
               and worker.lease_expires_at > now()) as others
      from locked as bucket
     cross join lateral (select clock_timestamp() as now) as clock
     cross join lateral (
           select extract(epoch from greatest(clock.now - bucket.refilled_at, interval '0'))::float8 as seconds) as passed
     cross join lateral (
           select case when bucket.requests is not null
                       then greatest(bucket.requests - greatest(1, bucket.requests * 0.05),
                                     bucket.requests * 0.5)::float8 / 60 end as requests,
                  bucket.tokens * 0.95 / 60 as tokens) as pace
      -- What the executor returns unused of this limit; nothing when it was of another limit.
     cross join lateral (
           select case when bucket.name = %(back_name)s::text then %(back_requests)s::float8 else 0 end as requests,
                  case when bucket.name = %(back_name)s::text then %(back_tokens)s::float8 else 0 end as tokens) as back
),
judged as materialized (
    select held.*,
           greatest(0, coalesce(extract(epoch from held.cooled_until - held.clock), 0),
                    coalesce(extract(epoch from held.opened_until - held.clock), 0),
                    case when held.opened_until is not null
                         then coalesce(extract(epoch from held.probing_until - held.clock), 0) else 0 end
                   )::float8 as shut,
           case when held.at_once is null then %(places)s::integer
                else least(%(places)s::integer, held.at_once - held.others::integer) end as places,
           -- A single request larger than the bucket passes when the bucket is full, and the bucket owes the rest.
           greatest(0, (1 - held.requests_now) / held.requests_pace,
                    (least(%(least_tokens)s::float8, held.most_tokens) - held.tokens_now) / held.tokens_pace
                   )::float8 as ready,
           -- A tenth of what is left: an executor may hold so much in advance without starving the others.
           least(held.requests_now, held.tokens_now / nullif(%(least_tokens)s::float8, 0)) / 10 as plenty
      from held
),
given as materialized (
    select judged.*,
           judged.opened_until is not null as probe,
           case when judged.shut > 0 or judged.places <= %(busy)s::integer or judged.ready > %(horizon)s::float8 then 0
                when judged.ready > 0 or judged.opened_until is not null then 1
                else greatest(1, floor(least(greatest(%(requests)s::float8, least(%(spare)s::float8, judged.plenty)),
                                             judged.requests_now,
                                             judged.tokens_now / nullif(%(least_tokens)s::float8, 0)))) end as got
      from judged
),
away as materialized (
    select given.*,
           given.got = 0 and given.shut = 0 and given.places > %(busy)s::integer as sent,
           least(greatest(given.turn_at, given.clock + make_interval(secs => given.ready)),
                 given.clock + make_interval(secs => %(longest)s::float8)) as turn
      from given
),
taken as (
    update retoma.limits as bucket
       set requests_left = coalesce(away.requests_now - away.got, 0),
           tokens_left = coalesce(away.tokens_now - away.got * %(least_tokens)s::float8, 0),
           refilled_at = away.clock,
           probing_until = case when away.probe and away.got > 0
                                then away.clock + interval '30 seconds' else bucket.probing_until end,
           turn_at = case when away.sent
                          then away.turn + make_interval(secs => 0.8 * greatest(
                                   1 / away.requests_pace, %(least_tokens)s::float8 / away.tokens_pace))
                          else bucket.turn_at end
      from away
     where bucket.name = away.name
),
seated as (
    insert into retoma.permits (name, worker_id, taken)
    select away.name, %(worker_id)s::bigint, away.places
      from away
     where away.at_once is not null
    on conflict (name, worker_id) do update set taken = excluded.taken
)
select away.got::float8 as requests,
       away.got * %(least_tokens)s::float8 as tokens,
       away.places,
       case when away.shut > 0 then away.shut
            when away.got > 0 then away.ready
            when away.places <= %(busy)s::integer then 0.2
            else extract(epoch from away.turn - away.clock) end::float8 as wait,
       away.reason,
       away.probe,
       away.at_once is not null as seated,
       num_nonnulls(away.requests, away.tokens) > 0 as counted,
       away.name
  from away;

-- name: give_back
-- What was granted and not used, or used beyond the grant.
update retoma.limits as bucket
   set requests_left = bucket.requests_left + %(requests)s::float8,
       tokens_left = bucket.tokens_left + %(tokens)s::float8
 where bucket.name = %(name)s::text
returning bucket.name;

-- name: sit
-- Sets how many requests of this executor are in flight or about to be; its other slots become free for others. The
-- number is absolute, so the statement can be repeated.
with freed as (
    delete from retoma.permits as permit
     where permit.worker_id = %(worker_id)s::bigint
       and permit.name = %(name)s::text
       and %(taken)s::integer = 0
),
kept as (
    update retoma.permits as permit
       set taken = %(taken)s::integer
     where permit.worker_id = %(worker_id)s::bigint
       and permit.name = %(name)s::text
       and %(taken)s::integer > 0
)
select %(name)s::text as name;

-- name: mend
-- The slots of executors that are gone: they no longer count, and can be deleted.
with gone as materialized (
    select permit.name, permit.worker_id
      from retoma.permits as permit
     where not exists (select from retoma.workers as worker
                        where worker.id = permit.worker_id
                          and worker.stopped_at is null
                          and worker.lease_expires_at > now())
     limit %(limit)s::integer
       for update skip locked
)
delete from retoma.permits as permit
 using gone
 where permit.name = gone.name
   and permit.worker_id = gone.worker_id
returning permit.name;

-- name: cool
-- The provider said when to come back: every caller waits.
insert into retoma.limits as bucket (name, cooled_until, reason)
values (%(name)s::text, clock_timestamp() + make_interval(secs => %(seconds)s::float8), %(reason)s::text)
on conflict (name) do update
   set cooled_until = greatest(bucket.cooled_until, excluded.cooled_until),
       reason = excluded.reason,
       requests_left = 0,
       tokens_left = least(bucket.tokens_left, 0)
returning name;

-- name: tell
-- Reports the outcome of a call that was sent *age* seconds ago: a success closes the breaker, a failure counts, and
-- too many in a row open it. Failures are consecutive when each was sent after the one before was known. Calls in
-- flight together count once, and a call sent before the breaker opened does not extend its pause. The age is
-- counted from the start of the statement, because it may wait for concurrent reports. The name is returned to the
-- caller that closed it.
with troubled as materialized (
    select bucket.name, bucket.opened_until is not null as opened
      from retoma.limits as bucket
     where bucket.name = %(name)s::text
       and case when %(good)s::boolean then bucket.failures > 0 or bucket.opened_until is not null
                else coalesce(bucket.failed_at < now() - make_interval(secs => %(age)s::float8), true) end
       for no key update
),
told as (
    update retoma.limits as bucket
       set failures = case when %(good)s::boolean then 0 else bucket.failures + 1 end,
           failed_at = case when %(good)s::boolean then bucket.failed_at else clock_timestamp() end,
           opened_until = case when %(good)s::boolean then null
                               when bucket.failures + 1 >= %(most)s::integer
                               then clock_timestamp() + make_interval(secs => %(pause)s::float8
                                        * power(2, least(bucket.failures + 1 - %(most)s::integer, 5)))
                               else bucket.opened_until end,
           probing_until = null,
           reason = case when %(good)s::boolean then null else %(reason)s::text end
      from troubled
     where bucket.name = troubled.name
)
select troubled.name
  from troubled
 where troubled.opened
   and %(good)s::boolean;

-- name: wake
-- Jobs that sleep for this limit are due now that it may let them through: some at once, the others a little apart,
-- none later than before. *after* is where the piece before ended, in seconds.
with asleep as materialized (
    select job.id, job.queue, job.run_at
      from retoma.jobs as job
     where job.state = 'queued'
       and job.reason like 'limited: %%'
       and job.reason = 'limited: ' || %(name)s::text
       and job.run_at > now() + make_interval(secs => %(after)s::float8)
     order by job.run_at
     limit %(limit)s::integer
       for no key update skip locked
),
in_turn as materialized (
    select asleep.*, row_number() over (order by asleep.run_at, asleep.id) as place from asleep
),
woken as (
    update retoma.jobs as job
       set run_at = least(job.run_at, now() + make_interval(secs => %(after)s::float8
                                                + greatest(in_turn.place - %(at_once)s::integer, 0) * 0.01))
      from in_turn
     where job.id = in_turn.id
    returning job.id, job.queue, job.lane_id
),
hint as (
    select pg_notify('retoma', named.queue) from (select distinct woken.queue from woken) as named
),
into_lane as materialized (
    select distinct woken.lane_id from woken where woken.lane_id > 0
),
-- include: rouse
select woken.id, (select count(*) from hint) as hints from woken;

-- name: put
-- A person, or the program, sets the limit; it applies from the next grant on. Every pause and breaker is reset:
-- setting a limit means that it shall be tried.
insert into retoma.limits as bucket (name, requests, tokens, at_once, requests_left, tokens_left)
values (%(name)s::text, %(requests)s::integer, %(tokens)s::integer, %(at_once)s::integer,
        greatest(1, coalesce(%(requests)s::integer, 0) * 0.025), coalesce(%(tokens)s::integer, 0) * 0.025)
on conflict (name) do update
   set requests = excluded.requests,
       tokens = excluded.tokens,
       at_once = excluded.at_once,
       requests_left = case when bucket.requests is null then excluded.requests_left
                            else least(bucket.requests_left, excluded.requests_left) end,
       tokens_left = case when bucket.tokens is null then excluded.tokens_left
                          else least(bucket.tokens_left, excluded.tokens_left) end,
       turn_at = null,
       cooled_until = null,
       opened_until = null,
       probing_until = null,
       failures = 0,
       reason = null
 where not %(keep)s::boolean
returning name;

-- name: remove
-- The limit, its pause and its breaker are forgotten. Whoever asks next finds none, and a provider that fails again gets
-- a breaker again.
delete from retoma.limits as bucket where bucket.name = %(name)s::text returning bucket.name;

-- name: all
select bucket.name, bucket.requests, bucket.tokens, bucket.at_once,
       case when bucket.cooled_until > clock_timestamp() then bucket.cooled_until end as cooled_until, bucket.reason,
       bucket.failures, bucket.opened_until,
       (select coalesce(sum(permit.taken), 0)
          from retoma.permits as permit
          join retoma.workers as worker on worker.id = permit.worker_id
         where permit.name = bucket.name and worker.stopped_at is null and worker.lease_expires_at > now())::integer
           as under_way
  from retoma.limits as bucket
 order by bucket.name;

-- name: stand
-- Each limit with what it let through in the last minute, and who waits for it. Of the last minute at most 20,000 calls
-- are read, and at most 10,000 waiting jobs are counted.
with lately as materialized (
    select call.provider, call.model, call.input_tokens + call.output_tokens as tokens
      from retoma.calls as call
     where call.asked_at > now() - interval '1 minute'
     order by call.asked_at desc, call.id desc
     limit 20000
),
used as materialized (
    select lately.provider, lately.model, count(*) as requests, sum(lately.tokens) as tokens
      from lately
     group by lately.provider, lately.model
)
select bucket.name, bucket.requests, bucket.tokens, bucket.at_once,
       case when bucket.cooled_until > clock_timestamp() then bucket.cooled_until end as cooled_until, bucket.reason,
       bucket.failures, bucket.opened_until,
       (select coalesce(sum(permit.taken), 0)
          from retoma.permits as permit
          join retoma.workers as worker on worker.id = permit.worker_id
         where permit.name = bucket.name and worker.stopped_at is null and worker.lease_expires_at > now())::integer
           as under_way,
       coalesce(sent.requests, 0)::bigint as requests_used,
       coalesce(sent.tokens, 0)::bigint as tokens_used,
       asleep.jobs as waiting, asleep.wakes_at,
       case when bucket.opened_until is null then 'closed'
            when bucket.opened_until > clock_timestamp() then 'open'
            else 'trying' end as breaker
  from retoma.limits as bucket
 cross join lateral (
       select sum(used.requests) as requests, sum(used.tokens) as tokens
         from used
        where bucket.name in (used.provider, used.provider || '/' || used.model)) as sent
 cross join lateral (
       select count(*) as jobs, min(line_of.run_at) as wakes_at
         from (select job.run_at
                 from retoma.jobs as job
                where job.state = 'queued'
                  and job.reason like 'limited: %%'
                  and job.reason = 'limited: ' || bucket.name
                order by job.run_at
                limit 10000) as line_of) as asleep
 order by bucket.name;

-- name: close
-- A person lets the provider be tried again now: its breaker closes, and its cool-down ends. What it allows stays.
update retoma.limits as bucket
   set opened_until = null,
       probing_until = null,
       cooled_until = null,
       turn_at = null,
       failures = 0,
       reason = null
 where bucket.name = %(name)s::text
returning bucket.name;
