-- Webhooks: where messages go, and how they get there. Messages about batches and jobs are written by triggers (revisions
-- 0040 and 0041), those about workers by "lost".

-- name: add
insert into retoma.webhook_endpoints (id, url, description, kinds, secret)
values (%(id)s::text, %(url)s::text, %(description)s::text, %(kinds)s::text[], %(secret)s::text)
returning id, url, description, kinds, created_at, succeeded_at, failed_at, failures, disabled_at, disabled_reason,
          previous_until, 0::bigint as waiting, 0::bigint as failed;

-- name: all
-- With how many messages wait, counted up to a thousand, and how many failed for good within a week.
select endpoint.id, endpoint.url, endpoint.description, endpoint.kinds, endpoint.created_at, endpoint.succeeded_at,
       endpoint.failed_at, endpoint.failures, endpoint.disabled_at, endpoint.disabled_reason,
       case when endpoint.previous_until > now() then endpoint.previous_until end as previous_until,
       (select count(*)
          from (select from retoma.webhook_deliveries as delivery
                 where delivery.endpoint_id = endpoint.id
                   and delivery.state = 'pending'
                 limit 1000) as waiting) as waiting,
       (select count(*)
          from (select from retoma.webhook_deliveries as delivery
                 where delivery.endpoint_id = endpoint.id
                   and delivery.state = 'failed'
                   and delivery.created_at > now() - interval '7 days'
                 limit 1000) as failed) as failed
  from retoma.webhook_endpoints as endpoint
 where %(id)s::text is null
    or endpoint.id = %(id)s::text
 order by endpoint.created_at, endpoint.id;

-- name: rotate
-- Both secrets sign until the grace period ends.
update retoma.webhook_endpoints as endpoint
   set secret = %(secret)s::text,
       previous_secret = endpoint.secret,
       previous_until = now() + make_interval(secs => %(grace)s::float8)
 where endpoint.id = %(id)s::text
returning endpoint.id;

-- name: enable
-- What waited is due again.
with woken as (
    update retoma.webhook_deliveries as delivery
       set next_at = now()
     where delivery.endpoint_id = %(id)s::text
       and delivery.state = 'pending'
)
update retoma.webhook_endpoints as endpoint
   set disabled_at = null,
       disabled_reason = null,
       failures = 0
 where endpoint.id = %(id)s::text
returning endpoint.id;

-- name: disable
-- No message is written for it any more; those that wait are kept until it is enabled.
update retoma.webhook_endpoints as endpoint
   set disabled_at = coalesce(endpoint.disabled_at, now()),
       disabled_reason = coalesce(endpoint.disabled_reason, %(reason)s::text)
 where endpoint.id = %(id)s::text
returning endpoint.id;

-- name: remove
with attempts as (
    delete from retoma.webhook_attempts as attempt
     using retoma.webhook_deliveries as delivery
     where delivery.id = attempt.delivery_id
       and delivery.endpoint_id = %(id)s::text
),
deliveries as (
    delete from retoma.webhook_deliveries as delivery
     where delivery.endpoint_id = %(id)s::text
)
delete from retoma.webhook_endpoints as endpoint
 where endpoint.id = %(id)s::text
returning endpoint.id;

-- name: test
-- A message that tells nothing but that it arrives.
insert into retoma.webhook_deliveries (id, endpoint_id, kind, body)
select 'msg_' || replace(gen_random_uuid()::text, '-', ''), endpoint.id, 'webhook.test',
       jsonb_build_object('type', 'webhook.test', 'data', jsonb_build_object('endpoint_id', endpoint.id), 'timestamp',
                          to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text
  from retoma.webhook_endpoints as endpoint
 where endpoint.id = %(id)s::text
returning id;

-- name: anybody
-- Whether any endpoint is told anything.
select exists (select from retoma.webhook_endpoints as endpoint where endpoint.disabled_at is null) as anybody;

-- name: lost
-- Messages about workers that ended without notice since an endpoint was made. They follow from rows that stay for days,
-- and their ids follow from the worker and the endpoint: however often this runs, each is written, and once.
insert into retoma.webhook_deliveries (id, endpoint_id, kind, body)
select 'msg_' || md5('worker.lost ' || worker.id || ' ' || endpoint.id), endpoint.id, 'worker.lost',
       jsonb_build_object('type', 'worker.lost', 'timestamp',
                          to_char(worker.stopped_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                          'data', jsonb_build_object('worker_id', worker.id, 'label', left(worker.label, 200),
                                                     'host', left(worker.host, 200), 'reason', worker.reason,
                                                     'seen_at', worker.seen_at))::text
  from retoma.webhook_endpoints as endpoint
  join retoma.workers as worker
    on worker.stopped_at > greatest(endpoint.created_at, now() - interval '1 day')
   and worker.reason in ('gone', 'lost')
 where endpoint.disabled_at is null
   and 'worker.lost' = any (endpoint.kinds)
on conflict (id) do nothing
returning id;

-- name: hurry
-- Queues one job that delivers, when something is due and none waits already. Its schedule says how; a paused one
-- delivers nothing.
insert into retoma.jobs (queue, pipeline, priority, max_attempts, timeout_seconds, input)
select schedule.queue, schedule.pipeline, schedule.priority, schedule.max_attempts, schedule.timeout_seconds,
       schedule.input
  from retoma.schedules as schedule
 where schedule.name = %(schedule)s::text
   and schedule.paused_at is null
   and exists (select
                 from retoma.webhook_endpoints as endpoint
                 join retoma.webhook_deliveries as delivery on delivery.endpoint_id = endpoint.id
                where endpoint.disabled_at is null
                  and delivery.state = 'pending'
                  and delivery.next_at <= now())
   and not exists (select
                     from retoma.jobs as job
                    where job.state = 'queued'
                      and job.queue = schedule.queue
                      and job.lane_id = 0
                      and job.pipeline = schedule.pipeline)
returning id, pg_notify('retoma', queue)::text as hint;

-- name: take
-- Messages that are due, a few of each endpoint, so that a slow one does not hold up the others. Who takes one has it
-- for the time of the lease; whoever dies meanwhile leaves it due again after that. With an id, that message alone.
with due as materialized (
    select delivery.id
      from retoma.webhook_endpoints as endpoint
     cross join lateral (
           select delivery.id
             from retoma.webhook_deliveries as delivery
            where delivery.endpoint_id = endpoint.id
              and delivery.state = 'pending'
              and delivery.next_at <= now()
              and (%(id)s::text is null or delivery.id = %(id)s::text)
            order by delivery.next_at
            limit %(each)s::integer
              for no key update skip locked) as delivery
     where endpoint.disabled_at is null
     limit %(limit)s::integer
)
update retoma.webhook_deliveries as delivery
   set attempts = delivery.attempts + 1,
       tries = delivery.tries + 1,
       next_at = now() + make_interval(secs => %(lease)s::float8)
  from due
  join retoma.webhook_deliveries as found on found.id = due.id
  join retoma.webhook_endpoints as endpoint on endpoint.id = found.endpoint_id
 where delivery.id = due.id
returning delivery.id, delivery.endpoint_id, delivery.kind, delivery.body, delivery.attempts as attempt,
          delivery.tries, endpoint.url, endpoint.secret,
          case when endpoint.previous_until > now() then endpoint.previous_secret end as previous_secret;

-- name: settle
-- How a request ended. Whoever held the message too long changes its state no more, but what they saw is in the log.
-- The last failure of a message disables its endpoint, unless another message has arrived there since it was written.
with seen as (
    insert into retoma.webhook_attempts (delivery_id, attempt, status, error, seconds)
    values (%(id)s::text, %(attempt)s::integer, %(status)s::integer, %(error)s::text, %(seconds)s::real)
    on conflict do nothing
),
settled as (
    update retoma.webhook_deliveries as delivery
       set state = case when %(arrived)s::boolean then 'delivered'
                        when %(delay)s::float8 is null then 'failed'
                        else 'pending' end,
           status = %(status)s::integer,
           error = %(error)s::text,
           next_at = now() + make_interval(secs => coalesce(%(delay)s::float8, 0)),
           ended_at = case when %(arrived)s::boolean or %(delay)s::float8 is null then now() end
     where delivery.id = %(id)s::text
       and delivery.state = 'pending'
       and (delivery.attempts = %(attempt)s::integer or %(arrived)s::boolean)
    returning delivery.endpoint_id, delivery.state, delivery.created_at
)
update retoma.webhook_endpoints as endpoint
   set succeeded_at = case when %(arrived)s::boolean then now() else endpoint.succeeded_at end,
       failed_at = case when %(arrived)s::boolean then endpoint.failed_at else now() end,
       failures = case when %(arrived)s::boolean then 0 else endpoint.failures + 1 end,
       disabled_at = case when endpoint.disabled_at is not null then endpoint.disabled_at
                          when %(gone)s::boolean
                               or settled.state = 'failed'
                                  and coalesce(endpoint.succeeded_at < settled.created_at, true)
                          then now() end,
       disabled_reason = case when endpoint.disabled_at is not null then endpoint.disabled_reason
                              when %(gone)s::boolean then 'gone'
                              when settled.state = 'failed'
                                   and coalesce(endpoint.succeeded_at < settled.created_at, true)
                              then 'failing' end
  from settled
 where endpoint.id = settled.endpoint_id
returning endpoint.id, endpoint.disabled_at is not null as disabled;

-- name: replay
-- The same message again, with the same id, from the first of its tries.
update retoma.webhook_deliveries as delivery
   set state = 'pending',
       tries = 0,
       next_at = now(),
       ended_at = null
 where delivery.id = %(id)s::text
returning delivery.id;

-- name: deliveries
-- Newest first.
select delivery.id, delivery.endpoint_id, delivery.kind, delivery.body, delivery.state, delivery.attempts,
       delivery.status, delivery.error, delivery.created_at,
       case when delivery.state = 'pending' then delivery.next_at end as next_at, delivery.ended_at
  from retoma.webhook_deliveries as delivery
 where (%(endpoint_id)s::text is null or delivery.endpoint_id = %(endpoint_id)s::text)
   and (%(id)s::text is null or delivery.id = %(id)s::text)
   and (%(state)s::text is null or delivery.state = %(state)s::text)
   and (%(before)s::timestamptz is null
        or (delivery.created_at, delivery.id) < (%(before)s::timestamptz, %(before_id)s::text))
 order by delivery.created_at desc, delivery.id desc
 limit %(limit)s::integer;

-- name: attempts
select attempt.attempt, attempt.at, attempt.status, attempt.error, attempt.seconds
  from retoma.webhook_attempts as attempt
 where attempt.delivery_id = %(id)s::text
 order by attempt.attempt;

-- name: prune
with old as materialized (
    select delivery.id
      from retoma.webhook_deliveries as delivery
     where delivery.ended_at < now() - make_interval(secs => %(older_than)s::float8)
     order by delivery.ended_at
     limit %(limit)s::integer
       for no key update skip locked
),
attempts as (
    delete from retoma.webhook_attempts as attempt
     using old
     where attempt.delivery_id = old.id
)
delete from retoma.webhook_deliveries as delivery
 using old
 where delivery.id = old.id
returning delivery.id;
