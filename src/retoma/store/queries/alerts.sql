-- Alerts: what is wrong now, the incidents that follow from it, and what is sent about them.

-- name: judge
-- What is wrong now, a row for each subject. Every part is bounded: by the fleet, by the batches at work, or by %(most)s
-- rows of an index for each queue, so that a long queue does not make it slow. Reads only.
with recursive named (queue) as (
    (select job.queue from retoma.jobs as job where job.state = 'queued' order by job.queue limit 1)
    union all
    select following.queue
      from named
     cross join lateral (
           select job.queue
             from retoma.jobs as job
            where job.state = 'queued' and job.queue > named.queue
            order by job.queue
            limit 1) as following
),
late as materialized (
    select named.queue, seen.due, extract(epoch from now() - seen.oldest_at)::float8 as seconds,
           exists (select
                     from retoma.workers as worker
                    where worker.stopped_at is null
                      and worker.lease_expires_at > now()
                      and named.queue = any (worker.queues)) as served
      from (select named.queue from named limit 100) as named
     cross join lateral (
           select count(*) as due, min(job.run_at) as oldest_at
             from (select job.run_at, job.lane_id
                     from retoma.jobs as job
                    where job.state = 'queued' and job.queue = named.queue
                    limit %(most)s::integer) as job
             left join retoma.lanes as lane on lane.id = job.lane_id
            where job.run_at <= now()
              and lane.closed_at is null) as seen
     where seen.due > 0
       and not exists (select from retoma.queues as queue
                        where queue.name = named.queue and
-- include: rests
                      )
),
stuck as (
    select count(*) as jobs
      from (select worker.id
              from retoma.workers as worker
             where worker.stopped_at is not null or worker.lease_expires_at < now()) as silent
     cross join lateral (
           select job.id
             from retoma.jobs as job
            where job.state = 'running' and job.worker_id = silent.id
            limit %(most)s::integer) as job
)
select 'queue_without_workers' as rule, late.queue as subject, 'critical' as severity,
       jsonb_build_object('queue', late.queue, 'due', late.due, 'seconds', round(late.seconds))::text as facts
  from late
 where not late.served
   and late.seconds > %(unserved_seconds)s::float8
union all
select 'queue_late', late.queue, 'warning',
       jsonb_build_object('queue', late.queue, 'due', late.due, 'seconds', round(late.seconds))::text
  from late
 where late.served
   and late.seconds > %(late_seconds)s::float8
union all
select 'batch_stalled', batch.id::text, 'warning',
       jsonb_build_object('batch', batch.id, 'pipeline', batch.pipeline, 'cause', batch.cause ->> 'code')::text
  from retoma.batches as batch
 where batch.state = 'stalled'
union all
select 'budget_reached', batch.id::text, 'warning',
       jsonb_build_object('batch', batch.id, 'pipeline', batch.pipeline, 'spent', batch.spent::text,
                          'budget', batch.budget::text)::text
  from retoma.batches as batch
 where batch.state = 'paused'
   and batch.reason = 'budget'
union all
select 'dead_letters', failed.queue, 'info', jsonb_build_object('queue', failed.queue, 'jobs', count(*))::text
  from (select job.queue, job.finished_at
          from retoma.jobs as job
         where job.state = 'failed'
         order by job.id desc
         limit %(most)s::integer) as failed
 where failed.finished_at > now() - make_interval(secs => %(failed_seconds)s::float8)
 group by failed.queue
union all
select 'worker_silent', lost.label, 'warning',
       jsonb_build_object('worker', lost.label, 'seconds', round(extract(epoch from now() - max(lost.seen_at))))::text
  from retoma.workers as lost
 where (lost.stopped_at is null and lost.lease_expires_at < now()
        or lost.reason = 'gone' and lost.stopped_at > now() - make_interval(secs => %(silent_seconds)s::float8))
   and not exists (select
                     from retoma.workers as other
                    where other.label = lost.label
                      and other.stopped_at is null
                      and other.lease_expires_at > now())
 group by lost.label
union all
select 'jobs_stuck', '', 'warning', jsonb_build_object('jobs', stuck.jobs)::text
  from stuck
 where stuck.jobs > %(stuck_jobs)s::integer
 order by 1, 2;

-- name: note
-- Open what was found for the first time, note that the others are still there, and resolve what no round has found for
-- a while: an incident that comes and goes within that time stays one. The unique index lets one incident of a rule and
-- a subject be open, whoever judges at the same time. Rows come back for what was opened or resolved.
with found as materialized (
    select *
      from unnest(%(rules)s::text[], %(subjects)s::text[], %(severities)s::text[], %(facts)s::text[])
           as found (rule, subject, severity, facts)
),
noted as (
    insert into retoma.alerts as alert (rule, subject, severity, facts)
    select found.rule, found.subject, found.severity, found.facts::jsonb
      from found
     order by found.rule, found.subject
    on conflict (rule, subject) where resolved_at is null
    do update set seen_at = now(), severity = excluded.severity, facts = excluded.facts
    returning alert.id, alert.rule, alert.subject, alert.severity, alert.opened_at = now() as opened
),
over as (
    update retoma.alerts as alert
       set resolved_at = now()
     where alert.resolved_at is null
       and alert.seen_at <= now() - make_interval(secs => %(quiet)s::float8)
       and not exists (select from found where found.rule = alert.rule and found.subject = alert.subject)
    returning alert.id, alert.rule, alert.subject, alert.severity
)
select noted.id, noted.rule, noted.subject, noted.severity, 'opened' as what from noted where noted.opened
union all
select over.id, over.rule, over.subject, over.severity, 'resolved' from over
 order by 1;

-- name: plan
-- A delivery for each channel and incident; the primary key makes it one, whoever plans. What is resolved is told only
-- where it was told that it had begun.
insert into retoma.alert_deliveries (alert_id, channel, what)
select alert.id, channel.name, 'opened'
  from retoma.alerts as alert
 cross join unnest(%(channels)s::text[]) as channel (name)
 where alert.resolved_at is null
union all
select alert.id, delivery.channel, 'resolved'
  from retoma.alerts as alert
  join retoma.alert_deliveries as delivery on delivery.alert_id = alert.id
 where %(resolved)s::boolean
   and alert.resolved_at > now() - interval '1 day'
   and delivery.what = 'opened'
   and delivery.sent_at is not null
   and delivery.channel = any (%(channels)s::text[])
on conflict do nothing
returning alert_id;

-- name: take
-- A delivery that is due, for one sender: it is due again only after its pause, which is longer than sending it takes.
-- So two senders never have the same one, and one that died is followed by another.
with due as materialized (
    select delivery.alert_id, delivery.channel, delivery.what
      from retoma.alert_deliveries as delivery
     where delivery.sent_at is null
       and delivery.due_at <= now()
       and delivery.tries < %(most)s::integer
       and delivery.channel = any (%(channels)s::text[])
     order by delivery.due_at, delivery.alert_id
     limit %(limit)s::integer
       for no key update skip locked
)
update retoma.alert_deliveries as delivery
   set tries = delivery.tries + 1,
       due_at = now() + make_interval(secs => %(pause)s::float8 * power(2, delivery.tries))
  from due
  join retoma.alerts as alert on alert.id = due.alert_id
 where delivery.alert_id = due.alert_id
   and delivery.channel = due.channel
   and delivery.what = due.what
returning delivery.alert_id, delivery.channel, delivery.what, delivery.tries, alert.rule, alert.subject,
          alert.severity, alert.facts::text, alert.opened_at, alert.resolved_at;

-- name: delivered
-- What was sent stays sent: a sender whose turn was over before its request failed changes nothing.
update retoma.alert_deliveries as delivery
   set sent_at = case when %(error)s::text is null then now() end,
       error = %(error)s::text
 where delivery.alert_id = %(id)s::bigint
   and delivery.channel = %(channel)s::text
   and delivery.what = %(what)s::text
   and delivery.sent_at is null
returning delivery.alert_id;

-- name: page
select alert.id, alert.rule, alert.subject, alert.severity, alert.facts::text, alert.opened_at, alert.seen_at,
       alert.acknowledged_at, alert.acknowledged_by, alert.note, alert.resolved_at,
       array(select delivery.channel
               from retoma.alert_deliveries as delivery
              where delivery.alert_id = alert.id and delivery.what = 'opened' and delivery.sent_at is not null
              order by delivery.channel) as sent,
       (select delivery.error
          from retoma.alert_deliveries as delivery
         where delivery.alert_id = alert.id and delivery.error is not null
         order by delivery.channel
         limit 1) as error
  from retoma.alerts as alert
 where (%(id)s::bigint is null or alert.id = %(id)s::bigint)
   and (not %(open)s::boolean or alert.resolved_at is null)
   and (%(before)s::bigint is null or alert.id < %(before)s::bigint)
 order by alert.id desc
 limit %(limit)s::integer;

-- name: acknowledge
-- Who was first stays: a second one changes nothing.
update retoma.alerts as alert
   set acknowledged_at = coalesce(alert.acknowledged_at, now()),
       acknowledged_by = coalesce(alert.acknowledged_by, %(by)s::text),
       note = coalesce(alert.note, %(note)s::text)
 where alert.id = %(id)s::bigint
returning alert.id;

-- name: prune
with old as materialized (
    select alert.id
      from retoma.alerts as alert
     where alert.resolved_at < now() - make_interval(secs => %(older_than)s::float8)
     order by alert.resolved_at
     limit %(limit)s::integer
       for update skip locked
)
delete from retoma.alerts as alert
 using old
 where alert.id = old.id
returning alert.id;
