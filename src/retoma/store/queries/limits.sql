-- What providers allow, shared by all workers. One short statement takes a slice for many calls at once.

-- name: take
-- Refill by the time that has passed, then give what is asked for, or say how long to wait. A bucket holds a fortieth
-- of a minute's allowance, and one request at least; it is refilled with nineteen twentieths, so that no minute gives
-- more than is allowed, and what reaches the provider a little late still fits. A provider that cools is not asked at
-- all; one that failed too often is asked by one probe at a time.
with locked as materialized (
    -- The first of the names that is limited, else the first. And first the lock, then the clock: who waited for
    -- another must not be refilled for the time that one was.
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
           least(pace.most, bucket.requests_left + pace.per_second * passed.seconds) as requests_now,
           pace.per_second,
           least(bucket.tokens * 0.025,
                 bucket.tokens_left + bucket.tokens * 0.95 / 60 * passed.seconds) as tokens_now,
           (select coalesce(sum(permit.taken), 0)
              from retoma.permits as permit
              join retoma.workers as worker on worker.id = permit.worker_id
             where permit.name = bucket.name
               and permit.worker_id <> %(worker_id)s::bigint
               and worker.stopped_at is null
               and worker.lease_expires_at > now()) as others
      from locked as bucket
     cross join lateral (
           select extract(epoch from greatest(clock_timestamp() - bucket.refilled_at, interval '0'))::float8
                      as seconds) as passed
     cross join lateral (
           select greatest(1, bucket.requests * 0.025)::float8 as most,
                  greatest(bucket.requests - greatest(1, bucket.requests * 0.05), bucket.requests * 0.5)::float8 / 60
                      as per_second) as pace
),
judged as materialized (
    select held.*,
           greatest(0, coalesce(extract(epoch from held.cooled_until - clock_timestamp()), 0),
                    coalesce(extract(epoch from held.opened_until - clock_timestamp()), 0),
                    case when held.opened_until is not null
                         then coalesce(extract(epoch from held.probing_until - clock_timestamp()), 0) else 0 end
                   )::float8 as shut,
           case when held.at_once is null then %(places)s::integer
                else least(%(places)s::integer, held.at_once - held.others::integer) end as places
      from held
),
given as materialized (
    select judged.*,
           judged.opened_until is not null as probe,
           case when judged.shut > 0 or judged.places <= %(busy)s::integer then 0
                when judged.opened_until is not null then least(1, %(requests)s::float8)
                when judged.requests is null then %(requests)s::float8
                when judged.requests_now < 1 then 0
                else floor(least(%(requests)s::float8, judged.requests_now)) end as got_requests
      from judged
),
granted as materialized (
    select given.*,
           -- A single request that is larger than the bucket is let through when the bucket is full, and owed.
           case when given.got_requests = 0 then 0
                when given.tokens is null then %(tokens)s::float8
                when given.tokens_now >= least(%(least_tokens)s::float8, given.tokens * 0.025)
                then greatest(%(least_tokens)s::float8, least(%(tokens)s::float8, given.tokens_now))
                else 0 end as got_tokens
      from given
),
taken as (
    update retoma.limits as bucket
       set requests_left = coalesce(granted.requests_now
                                    - case when granted.got_tokens > 0 or granted.tokens is null
                                           then granted.got_requests else 0 end, 0),
           tokens_left = coalesce(granted.tokens_now - granted.got_tokens, 0),
           refilled_at = clock_timestamp(),
           probing_until = case when granted.probe and granted.got_requests > 0
                                then clock_timestamp() + interval '30 seconds' else bucket.probing_until end
      from granted
     where bucket.name = granted.name
),
seated as (
    insert into retoma.permits (name, worker_id, taken)
    select granted.name, %(worker_id)s::bigint, granted.places
      from granted
     where granted.at_once is not null
    on conflict (name, worker_id) do update set taken = excluded.taken
)
select case when granted.got_tokens > 0 or granted.tokens is null and granted.got_requests > 0
            then granted.got_requests else 0 end::float8 as requests,
       granted.got_tokens::float8 as tokens,
       granted.places,
       case when granted.shut > 0 then granted.shut
            when granted.places <= %(busy)s::integer then 0.2
            when granted.got_requests = 0 then (1 - granted.requests_now) / granted.per_second
            when granted.tokens is not null and granted.got_tokens = 0
            then (least(%(least_tokens)s::float8, granted.tokens * 0.025) - granted.tokens_now)
                 * 60 / (granted.tokens * 0.95)
            else 0 end::float8 as wait,
       granted.reason,
       granted.probe,
       granted.at_once is not null as seated,
       granted.name
  from granted;

-- name: give_back
-- What was taken and not used, or used beyond what was taken.
update retoma.limits as bucket
   set requests_left = bucket.requests_left + %(requests)s::float8,
       tokens_left = bucket.tokens_left + %(tokens)s::float8
 where bucket.name = %(name)s::text
returning bucket.name;

-- name: leave
-- Nothing of this executor is under way: its places are free.
delete from retoma.permits as permit
 where permit.worker_id = %(worker_id)s::bigint
   and permit.name = %(name)s::text
returning permit.name;

-- name: cool
-- The provider said when to come back: everybody waits.
insert into retoma.limits as bucket (name, cooled_until, reason)
values (%(name)s::text, clock_timestamp() + make_interval(secs => %(seconds)s::float8), %(reason)s::text)
on conflict (name) do update
   set cooled_until = greatest(bucket.cooled_until, excluded.cooled_until),
       reason = excluded.reason,
       requests_left = 0,
       tokens_left = least(bucket.tokens_left, 0)
returning name;

-- name: tell
-- How a call went: a good one closes the breaker, a bad one counts, and too many in a row open it.
update retoma.limits as bucket
   set failures = case when %(good)s::boolean then 0 else bucket.failures + 1 end,
       opened_until = case when %(good)s::boolean then null
                           when bucket.failures + 1 >= %(most)s::integer
                           then clock_timestamp() + make_interval(
                                secs => %(pause)s::float8 * power(2, least(bucket.failures + 1 - %(most)s::integer, 5)))
                           else bucket.opened_until end,
       probing_until = null,
       reason = case when %(good)s::boolean then null else %(reason)s::text end
 where bucket.name = %(name)s::text
   and (not %(good)s::boolean or bucket.failures > 0 or bucket.opened_until is not null)
returning bucket.name;

-- name: put
-- A person, or the program, says what is allowed; it holds from the next slice on.
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
                          else least(bucket.tokens_left, excluded.tokens_left) end
 where not %(keep)s::boolean
returning name;

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
