-- Checkpoints: the rows are the truth. They are added and judged, and never changed.

-- name: of
-- All of a session, the newest first.
-- include: checkpoint
 where checkpoint.session_id = %(session_id)s::text
 order by checkpoint.saved_at desc nulls last, checkpoint.id desc;

-- name: valid
-- Those that a run may use, unless a new look finds fault with them.
-- include: checkpoint
 where checkpoint.session_id = %(session_id)s::text
   and checkpoint.verdict = 'valid'
 order by checkpoint.saved_at desc nulls last, checkpoint.id desc;

-- name: save
-- The next version of a chapter's checkpoint. The session's row is locked by now.
insert into books.checkpoints (session_id, chapter_number, version, body, origin, source, verdict, reason, message,
                               chapter_sha256, configuration_hash, total_chunks, processed_chunks, words, summary_words,
                               passed, saved_at)
select %(session_id)s::text, %(chapter_number)s::text,
       coalesce((select max(before.version)
                   from books.checkpoints as before
                  where before.session_id = %(session_id)s::text
                    and before.chapter_number = %(chapter_number)s::text), 0) + 1,
       %(body)s::bytea, %(origin)s::text, %(source)s::text,
       case when %(reason)s::text is null then 'valid' else 'invalid' end, %(reason)s::text, %(message)s::text,
       %(chapter_sha256)s::text, %(configuration_hash)s::text, %(total_chunks)s::integer, %(processed_chunks)s::integer,
       %(words)s::integer, %(summary_words)s::integer, %(passed)s::boolean, %(saved_at)s::timestamptz
returning version;

-- name: set_aside
-- One that was valid is not any more. It is kept for whoever wants to know why.
update books.checkpoints as checkpoint
   set verdict = 'invalid', reason = %(reason)s::text, message = %(message)s::text, judged_at = now()
 where checkpoint.id = %(id)s::bigint
   and checkpoint.verdict = 'valid'
returning checkpoint.id;

-- name: reusable
-- Valid checkpoints of other sessions for the same texts, made in the same way; one for each text.
select distinct on (checkpoint.chapter_sha256) checkpoint.chapter_sha256, checkpoint.session_id, checkpoint.body
  from books.checkpoints as checkpoint
 where checkpoint.chapter_sha256 = any (%(hashes)s::text[])
   and checkpoint.configuration_hash = %(configuration_hash)s::text
   and checkpoint.verdict = 'valid'
   and checkpoint.session_id <> %(session_id)s::text
 order by checkpoint.chapter_sha256, checkpoint.id desc;
