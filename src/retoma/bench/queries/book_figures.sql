-- What the measurements of books ask of the tables.

-- name: claimed_at
-- When the job was last claimed.
select job.claimed_at
  from retoma.jobs as job
 where job.id = %(job_id)s::bigint;

-- name: made
-- Chapters of these sessions, those that have a valid checkpoint, those that passed, and checkpoints beyond the first.
select count(*)::integer as chapters,
       count(*) filter (where made.valid > 0)::integer as saved,
       count(*) filter (where made.passed)::integer as passed,
       coalesce(sum(greatest(made.checkpoints - 1, 0)), 0)::integer as saved_again,
       coalesce(sum(chapter.words), 0)::integer as words
  from books.chapters as chapter
 cross join lateral (
       select count(*) as checkpoints, count(*) filter (where checkpoint.verdict = 'valid') as valid,
              bool_or(checkpoint.passed) as passed
         from books.checkpoints as checkpoint
        where checkpoint.session_id = chapter.session_id and checkpoint.chapter_number = chapter.number) as made
 where chapter.session_id = any (%(sessions)s::text[]);
