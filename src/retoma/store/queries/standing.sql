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

-- name: session
select jsonb_build_object('opened_by', session.opened_by, 'key', session.key_id,
                          'expires_at', session.expires_at, 'ended_at', session.ended_at)::text as fields
  from retoma.sessions as session
 where session.id = %(id)s::text;
