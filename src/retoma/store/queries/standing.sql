-- The current state of things, as far as every reader may know it: no input, no text, no secret. One block per kind, so
-- that an audit entry about one kind waits for no other table.

-- name: batch
select jsonb_build_object('state', batch.state, 'reason', batch.reason, 'name', batch.name,
                          'max_resumes', batch.max_resumes, 'max_failure_rate', batch.max_failure_rate,
                          'stall_seconds', batch.stall_seconds, 'budget', batch.budget,
                          'resumes', batch.resumes, 'total', batch.total, 'epoch', batch.epoch)::text as fields
  from retoma.batches as batch
 where batch.id = %(id)s::bigint;

-- name: job
select jsonb_build_object('state', job.state, 'reason', job.reason, 'pipeline', job.pipeline,
                          'queue', job.queue, 'batch', job.batch_id, 'attempt', job.attempt,
                          'max_attempts', job.max_attempts, 'signals', job.signals)::text as fields
  from retoma.jobs as job
 where job.id = %(id)s::bigint;

-- name: queue
select jsonb_build_object('paused_at', queue.paused_at, 'reason', queue.paused_reason,
                          'paused_until', queue.paused_until,
                          'weight', queue.weight)::text as fields
  from retoma.queues as queue
 where queue.name = %(id)s::text;

-- name: schedule
select jsonb_build_object('pipeline', schedule.pipeline, 'cron', schedule.cron, 'zone', schedule.zone,
                          'paused_at', schedule.paused_at, 'next_run_at', schedule.next_run_at)::text as fields
  from retoma.schedules as schedule
 where schedule.name = %(id)s::text;

-- name: limit
select jsonb_build_object('requests', allowed.requests, 'tokens', allowed.tokens,
                          'at_once', allowed.at_once)::text as fields
  from retoma.limits as allowed
 where allowed.name = %(id)s::text;

-- name: key
select jsonb_build_object('name', key.name, 'scopes', key.scopes, 'pipelines', key.pipelines,
                          'expires_at', key.expires_at, 'revoked_at', key.revoked_at,
                          'rotated_at', key.rotated_at, 'previous_until', key.previous_until)::text as fields
  from retoma.api_keys as key
 where key.id = %(id)s::text;

-- name: alert
select jsonb_build_object('rule', alert.rule, 'subject', alert.subject, 'acknowledged_by', alert.acknowledged_by,
                          'acknowledged_at', alert.acknowledged_at, 'resolved_at', alert.resolved_at)::text as fields
  from retoma.alerts as alert
 where alert.id = %(id)s::bigint;

-- name: session
select jsonb_build_object('opened_by', session.opened_by, 'key', session.key_id, 'user', session.user_id,
                          'expires_at', session.expires_at, 'ended_at', session.ended_at)::text as fields
  from retoma.sessions as session
 where session.id = %(id)s::text;

-- name: operation
select jsonb_build_object('kind', operation.kind, 'batch', operation.batch_id, 'filter', operation.filter,
                          'asked', operation.asked, 'wanted', operation.wanted, 'done', operation.done,
                          'skipped', operation.skipped, 'finished_at', operation.finished_at,
                          'error', operation.error)::text as fields
  from retoma.operations as operation
 where operation.id = %(id)s::bigint;

-- name: view
select jsonb_build_object('name', view.name, 'page', view.page, 'owner', view.owner,
                          'shared', view.shared)::text as fields
  from retoma.views as view
 where view.id = %(id)s::bigint;

-- name: worker
select jsonb_build_object('executors', count(*), 'asked_to_end', count(worker.drain_requested_at))::text as fields
  from retoma.workers as worker
 where worker.label = %(id)s::text
   and worker.stopped_at is null
having count(*) > 0;

-- name: review
select jsonb_build_object('state', review.state, 'pipeline', review.pipeline, 'batch', review.batch_id,
                          'job', review.job_id, 'source', review.source, 'item', review.item)::text as fields
  from retoma.reviews as review
 where review.id = %(id)s::bigint;

-- name: user
select jsonb_build_object('name', account.name, 'role', account.role, 'issuer', account.issuer,
                          'password_at', account.password_at, 'locked_at', account.locked_at,
                          'removed_at', account.removed_at)::text as fields
  from retoma.users as account
 where account.id = %(id)s::text;

-- name: webhook
select jsonb_build_object('url', split_part(endpoint.url, '?', 1), 'kinds', endpoint.kinds,
                          'disabled_at', endpoint.disabled_at, 'disabled_reason', endpoint.disabled_reason,
                          'previous_until', endpoint.previous_until)::text as fields
  from retoma.webhook_endpoints as endpoint
 where endpoint.id = %(id)s::text;

-- name: delivery
select jsonb_build_object('endpoint', delivery.endpoint_id, 'kind', delivery.kind, 'state', delivery.state,
                          'attempts', delivery.attempts)::text as fields
  from retoma.webhook_deliveries as delivery
 where delivery.id = %(id)s::text;
