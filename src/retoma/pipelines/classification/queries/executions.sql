-- Executions: which batch classified which project. How one stands is said by its batch and its jobs.

-- name: create
insert into retoma.executions (batch_id, project_id, settings_hash)
values (%(batch_id)s::bigint, %(project_id)s::bigint, %(settings_hash)s::text)
returning batch_id;

-- name: page
-- Newest first, every figure of one execution from one snapshot: the counts are those of its jobs, so they always add
-- up to its total. The last step of the batch is no document, and is in no count.
select execution.batch_id as id, execution.project_id, project.name as project, batch.name, batch.route, batch.state,
       batch.reason, batch.cause, batch.configuration, counted.total, counted.queued, counted.running,
       counted.completed, counted.skipped, counted.failed, counted.cancelled, counted.review, batch.resumes,
       batch.max_resumes, batch.spent, batch.budget, batch.stall_seconds, batch.last_progress_at, batch.last_key,
       batch.event_seq, batch.created_at, batch.started_at, batch.stalled_at, batch.finished_at,
       execution.archived_at, now() as now, batch.unpriced
  from retoma.executions as execution
  join retoma.batches as batch on batch.id = execution.batch_id
  join retoma.projects as project on project.id = execution.project_id
 cross join lateral (
       select count(*)::integer as total,
              count(*) filter (where job.state = 'queued')::integer as queued,
              count(*) filter (where job.state = 'running')::integer as running,
              count(*) filter (where job.state = 'completed')::integer as completed,
              count(*) filter (where job.state = 'skipped')::integer as skipped,
              count(*) filter (where job.state = 'failed')::integer as failed,
              count(*) filter (where job.state = 'cancelled')::integer as cancelled,
              count(*) filter (where job.state = 'review')::integer as review
         from retoma.jobs as job
        where job.batch_id = batch.id
          and job.id is distinct from batch.finish_job_id) as counted
 where (%(id)s::bigint is null or execution.batch_id = %(id)s::bigint)
   and (%(project_id)s::bigint is null or execution.project_id = %(project_id)s::bigint)
   and (%(states)s::text[] is null or batch.state = any (%(states)s::text[]))
   and (%(archived)s::boolean or execution.archived_at is null)
   and (%(before)s::bigint is null or execution.batch_id < %(before)s::bigint)
 order by execution.batch_id desc
 limit %(limit)s::integer;

-- name: archive
-- Only what has ended leaves the lists; nothing of it is removed.
update retoma.executions as execution
   set archived_at = coalesce(execution.archived_at, now())
  from retoma.batches as batch
 where execution.batch_id = %(id)s::bigint
   and batch.id = execution.batch_id
   and batch.state in ('completed', 'failed', 'cancelled')
returning execution.batch_id;

-- name: unfinished
-- The newest execution of a project with these settings that has not ended: to be gone on with, not begun again.
select execution.batch_id
  from retoma.executions as execution
  join retoma.batches as batch on batch.id = execution.batch_id
 where execution.project_id = %(project_id)s::bigint
   and execution.settings_hash = %(settings_hash)s::text
   and batch.state in ('queued', 'running', 'paused', 'stalled')
 order by execution.batch_id desc
 limit 1;

-- name: replanned
-- In the transaction that re-plans its batch: whoever begins the project with these settings goes on with this execution.
update retoma.executions as execution
   set settings_hash = %(settings_hash)s::text
 where execution.batch_id = %(id)s::bigint
returning execution.batch_id;

-- name: mixed
-- Whether an execution was re-planned with other categories: then its results are no answers to one question, and cannot
-- be compared with each other.
select count(distinct names.told) > 1 as mixed
  from retoma.cohorts as cohort
 cross join lateral (
       select coalesce(string_agg(label ->> 'name', ', ' order by label ->> 'name'), '') as told
         from json_array_elements(cohort.configuration -> 'labels') as label) as names
 where cohort.batch_id = %(id)s::bigint;

-- name: project_of
select execution.project_id
  from retoma.executions as execution
 where execution.batch_id = %(batch_id)s::bigint;
