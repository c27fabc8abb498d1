-- name: session
-- A session with what is known of its job. What a job without a worker is called is said here, and nowhere else.
select session.id, session.number, session.title, input.filename, input.kind, input.size, session.input_sha256,
       session.configuration, session.configuration_hash, session.job_id, session.runs, session.detector,
       session.left_out, session.doubts, session.pages, session.reader,
       case when session.finished_at is not null then 'done'
            when job.state in ('queued', 'running') then 'in_progress'
            when job.state = 'failed' then 'failed'
            else 'paused' end as state,
       case when session.finished_at is not null or job.state in ('queued', 'running') then null
            when session.input_sha256 is null then 'input_missing'
            when job.state = 'review' then 'review'
            when job.state = 'failed' then job.error
            else coalesce(job.reason, 'stopped') end as reason,
       planned.chapters, planned.words, done.chapters as done, done.passed, done.summary_words, set_aside.invalid,
       session.started_at, session.planned_at, session.approved_at, session.finished_at, session.created_by,
       session.created_at, greatest(session.updated_at, done.saved_at) as updated_at
  from books.sessions as session
  left join books.inputs as input on input.sha256 = session.input_sha256
  left join retoma.jobs as job on job.id = session.job_id
 cross join lateral (
       select count(*) as chapters, coalesce(sum(chapter.words), 0)::bigint as words
         from books.chapters as chapter
        where chapter.session_id = session.id) as planned
 cross join lateral (
       select count(*) as chapters, count(*) filter (where checkpoint.passed) as passed,
              coalesce(sum(checkpoint.summary_words), 0)::bigint as summary_words, max(checkpoint.created_at) as saved_at
         from books.checkpoints as checkpoint
        where checkpoint.session_id = session.id
          and checkpoint.verdict = 'valid') as done
 cross join lateral (
       select count(*) as invalid
         from books.checkpoints as checkpoint
        where checkpoint.session_id = session.id
          and checkpoint.verdict = 'invalid') as set_aside

-- name: checkpoint
select checkpoint.id, checkpoint.session_id, checkpoint.chapter_number, checkpoint.version, checkpoint.body,
       checkpoint.origin, checkpoint.source, checkpoint.verdict, checkpoint.reason, checkpoint.message,
       checkpoint.total_chunks, checkpoint.processed_chunks, checkpoint.passed, checkpoint.saved_at,
       checkpoint.created_at, checkpoint.judged_at
  from books.checkpoints as checkpoint
