-- What the measurements of quotes ask of the tables.

-- name: unended
-- How many quotes of a batch are not at their end; a look at the jobs, whose index it is.
select count(*) as quotes
  from retoma.jobs as job
 where job.batch_id = %(batch_id)s::bigint and job.state in ('queued', 'running');

-- name: holders
-- The processes that hold quotes of a batch, each as often as it holds one.
select worker.pid
  from retoma.jobs as job
  join retoma.workers as worker on worker.id = job.worker_id
 where job.batch_id = %(batch_id)s::bigint and job.state = 'running' and worker.stopped_at is null;

-- name: crashed
-- How often a quote of a batch took its process down, or may have, and how many had to run alone for that.
select coalesce(sum(job.crashes), 0)::integer as crashes,
       count(*) filter (where job.alone or job.crashes >= 2)::integer as alone
  from retoma.jobs as job
 where job.batch_id = %(batch_id)s::bigint;

-- name: seconds
-- How long after a moment the last quote of a batch ended.
select coalesce(extract(epoch from max(job.finished_at) - %(since)s::timestamptz), 0)::float8 as seconds
  from retoma.jobs as job
 where job.batch_id = %(batch_id)s::bigint;

-- name: failed
-- The items of a batch that came to no good end. A quote may be done whose job failed: its executor died in between.
select quote.input_text as item
  from quotes.quote_requests as quote
 where quote.batch_job_id = %(batch_id)s::bigint and quote.status <> 'DONE';

-- name: ledger
-- For each item the calls that were answered, and those of which nobody knows whether they were paid.
select job.input ->> 'text' as item,
       count(*) filter (where call.state = 'answered')::integer as answered,
       count(*) filter (where call.state <> 'answered')::integer as doubtful
  from retoma.jobs as job
  join retoma.calls as call on call.job_id = job.id
 where job.batch_id = %(batch_id)s::bigint
 group by job.id;

-- name: project
-- A project, and its first version.
with project as (insert into quotes.projects (name) values ('bench') returning id)
insert into quotes.configurations (project_id, version, terms, created_by)
select project.id, 1, '{}', 'bench' from project;

-- name: silent
-- A worker whose lease is long over, and one that lives: the jobs that run are theirs.
insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds, seen_at,
                            lease_expires_at)
select 'bench ' || number, '-', 0, '-', '{quotes}', '{process-quote}', 1000, 60, now() - number * interval '1 hour',
       now() + (1 - number) * interval '1 day'
  from generate_series(0, 1) as number;

-- name: many
-- Quotes as a house has them after years: one in a thousand is in processing, and of those one in five is stuck.
with job as (
    insert into retoma.jobs (queue, pipeline, max_attempts, timeout_seconds, input, state, attempt, fence, worker_id,
                             claimed_at, finished_at)
    select 'quotes', 'process-quote', 5, 480, '{"text": "mesa"}',
           case when number %% 1000 > 0 then 'completed' else 'running' end, 1, 1,
           case when number %% 1000 = 0
                then (select min(worker.id) + case when number %% 5000 = 0 then 1 else 0 end
                        from retoma.workers as worker) end,
           now() - interval '1 hour', case when number %% 1000 > 0 then now() - number * interval '1 second' end
      from generate_series(%(first)s::integer, %(last)s::integer) as number
    returning id, state
)
insert into quotes.quote_requests (job_id, project_id, config_version_id, status, input_text, current_step,
                                   progress_percentage, processing_checkpoint, last_heartbeat, started_at, completed_at,
                                   created_by)
select job.id, project.id, configuration.id,
       case when job.state = 'running' then 'PROCESSING' when job.id %% 50 = 0 then 'ERROR'
            when job.id %% 20 = 0 then 'AWAITING_REVIEW' else 'DONE' end,
       'mesa ' || job.id, 'completed', 100,
       case when job.state <> 'running' then 'COMPLETED'
            else (array['INIT', 'AI_ANALYSIS_DONE', 'SHOPPING_SEARCH_DONE', 'PRICE_EXTRACTION_PROGRESS'])
                 [1 + job.id / 1000 %% 4] end,
       now() - interval '20 minutes',
       now() - interval '1 hour' - job.id * interval '1 second',
       case when job.state <> 'running' then now() - job.id * interval '1 second' end, 'bench'
  from job
 cross join quotes.projects as project
  join quotes.configurations as configuration on configuration.project_id = project.id;
