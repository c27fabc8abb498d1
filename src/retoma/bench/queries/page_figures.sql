-- What the pages of the console are measured among: a database that has seen much work, made without doing it.

-- name: indexes
-- Those of the table that no constraint needs: rows are written many times faster without them.
select of_table.indexname as name, of_table.indexdef as definition
  from pg_indexes as of_table
 where of_table.schemaname = 'retoma'
   and of_table.tablename = %(name)s::text
   and not exists (select from pg_constraint as rule
                    where rule.conname = of_table.indexname and rule.connamespace = 'retoma'::regnamespace)
 order by 1;

-- name: fill_batches
-- Batches that ended within the last month, and the jobs of each.
with lane as (
    insert into retoma.lanes (queue, name)
    select 'bench-noop', 'old ' || number from generate_series(1, %(number)s::integer) as number
    returning id
),
batch as (
    insert into retoma.batches (name, pipeline, queue, lane_id, max_resumes, stall_seconds, state, was, total,
                                unfinished, sealed_at, started_at, finished_at, last_progress_at)
    select 'old ' || lane.id, 'bench-noop', 'bench-noop', lane.id, 3, 300, 'completed', 'running', %(each)s::integer, 0,
           now() - lane.id %% 30 * interval '1 day' - interval '1 hour',
           now() - lane.id %% 30 * interval '1 day' - interval '1 hour',
           now() - lane.id %% 30 * interval '1 day', now() - lane.id %% 30 * interval '1 day'
      from lane
    returning id, lane_id, finished_at
)
insert into retoma.jobs (batch_id, queue, lane_id, pipeline, key, state, attempt, max_attempts, fence, timeout_seconds,
                         claimed_at, finished_at, input, output)
select batch.id, 'bench-noop', batch.lane_id, 'bench-noop', 'old-' || number || '.pdf', 'completed', 1, 3, 1, 120,
       batch.finished_at - interval '1 minute', batch.finished_at, number::text::json, 'null'
  from batch
 cross join generate_series(1, %(each)s::integer) as number;

-- name: fill_waiting
insert into retoma.jobs (queue, pipeline, max_attempts, timeout_seconds, input)
select case number %% 4 when 0 then 'bench-noop' when 1 then 'bench-clock' when 2 then 'bench-steps' else 'bench-ask' end,
       case number %% 4 when 0 then 'bench-noop' when 1 then 'bench-clock' when 2 then 'bench-steps' else 'bench-ask' end,
       3, 120, number::text::json
  from generate_series(1, %(jobs)s::integer) as number;

-- name: fill_failed
-- Failures of the last three days, in forty groups.
with job as (
    insert into retoma.jobs (queue, pipeline, key, state, reason, attempt, max_attempts, fence, timeout_seconds,
                             claimed_at, finished_at, input, error)
    select 'bench-ask', 'bench-ask', 'failed-' || number || '.pdf', 'failed', 'the last attempt failed', 3, 3, 3, 120,
           now() - number %% 4320 * interval '1 minute' - interval '1 second',
           now() - number %% 4320 * interval '1 minute', number::text::json,
           'ProviderError: service ' || chr(65 + number %% 20) || chr(65 + number %% 2) || ' refused request ' || number
      from generate_series(1, %(jobs)s::integer) as number
    returning id, claimed_at, finished_at, error
)
insert into retoma.attempts (job_id, fence, attempt, worker_id, ending, error, step, claimed_at, ended_at, seconds)
select job.id, fence, fence, 1, 'failed', job.error, 'ask', job.claimed_at, job.finished_at, 1
  from job
 cross join generate_series(1, 3) as fence;

-- name: fill_review
with job as (
    insert into retoma.jobs (queue, pipeline, key, state, reason, attempt, max_attempts, fence, timeout_seconds,
                             claimed_at, finished_at, input)
    select 'bench-ask', 'bench-ask', 'review-' || number || '.pdf', 'review', 'not sure', 1, 3, 1, 120, now(), now(),
           number::text::json
      from generate_series(1, %(jobs)s::integer) as number
    returning id, key
)
insert into retoma.reviews (source, item, job_id, fence, pipeline, title, reason, proposal, label, confidence, margin)
select 'job', job.id::text, job.id, 1, 'bench-ask', job.key, 'not sure', '"yes"', 'yes', 0.6, job.id %% 100 / 100.0
  from job;

-- name: fill_history
-- Jobs of no batch that ended within the last month.
insert into retoma.jobs (queue, pipeline, state, attempt, max_attempts, fence, timeout_seconds, claimed_at, finished_at,
                         input, output)
select 'bench-clock', 'bench-clock', 'completed', 1, 3, 1, 120, now() - number %% 43200 * interval '1 minute',
       now() - number %% 43200 * interval '1 minute', number::text::json, 'null'
  from generate_series(1, %(jobs)s::integer) as number;

-- name: half_way
-- A batch in the middle, with steps, attempts and some failures.
with ended as (
    update retoma.jobs as job
       set state = case when job.id %% 50 = 0 then 'failed' else 'completed' end,
           error = case when job.id %% 50 = 0 then 'ValueError: page ' || job.id || ' cannot be read' end,
           attempt = 1, fence = 1, claimed_at = now() - job.id %% 3600 * interval '1 second' - interval '2 seconds',
           finished_at = now() - job.id %% 3600 * interval '1 second'
     where job.batch_id = %(id)s::bigint and job.id %% 5 < 3
    returning job.id, job.state, job.error, job.claimed_at, job.finished_at
),
attempted as (
    insert into retoma.attempts (job_id, fence, attempt, worker_id, ending, error, step, claimed_at, ended_at, seconds)
    select ended.id, 1, 1, 1, ended.state, ended.error, 'read', ended.claimed_at, ended.finished_at, 2
      from ended
),
saved as (
    insert into retoma.checkpoints (job_id, step, value, checksum, fingerprint, fence, seconds, saved_at)
    select ended.id, step, '1', '', '', 1, 0.5, ended.finished_at
      from ended
     cross join unnest(array['read', 'ask', 'store']) as step
     where ended.state = 'completed'
)
update retoma.batches as batch
   set state = 'running', was = 'queued', started_at = now() - interval '1 hour', last_progress_at = now(),
       paced_at = now(), unfinished = batch.total - (select count(*) from ended),
       failures = (select count(*) from ended where ended.state = 'failed')
 where batch.id = %(id)s::bigint;

-- name: fill_calls
-- Calls of today, one in ten of them for the batch.
insert into retoma.calls (key, provider, model, job_id, batch_id, step, fence, kind, state, request, answer, text, cost,
                          cost_basis, input_tokens, output_tokens, asked_at, answered_at, pipeline)
select 'bench ' || number, 'bench', case number %% 3 when 0 then 'large' else 'small' end, number,
       case when number %% 10 = 0 then %(id)s::bigint end, 'ask', 1,
       case number %% 20 when 0 then 'again' else 'first' end, 'answered', '{}', '{}', 'yes', 0.001, 'priced', 900, 80,
       now() - (now() - date_trunc('day', now(), 'UTC')) * (number / %(calls)s::float8), now(), 'bench-ask'
  from generate_series(1, %(calls)s::integer) as number;
