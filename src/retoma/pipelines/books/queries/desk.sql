-- Lists of chapters in doubt, at the review desk of the engine. The job of the session waits in review.

-- name: seen
-- The session of a job that waits, with the beginning of each of its chapters.
select session.id, session.title, session.doubts,
       coalesce((select string_agg(chapter.number || ' · ' || chapter.title || ' (' || chapter.words || ')' || chr(10)
                                   || left(chapter.content, 240), chr(10) || chr(10) order by chapter.place)
                   from books.chapters as chapter
                  where chapter.session_id = session.id), '') as chapters
  from books.sessions as session
 where session.job_id = %(job_id)s::bigint
   and session.planned_at is not null
   and session.approved_at is null;

-- name: withdraw
-- An acceptance was undone before anything came of it.
update books.sessions as session
   set approved_at = null, updated_at = now()
 where session.job_id = %(job_id)s::bigint
   and not exists (select from books.checkpoints as checkpoint
                    where checkpoint.session_id = session.id and checkpoint.verdict = 'valid')
returning session.id;
