-- Feedback: what readers say of a summary, and what they are answered.

-- name: add
insert into books.feedback (session_id, kind, message, chapter_number, created_by)
values (%(session_id)s::text, %(kind)s::text, %(message)s::text, %(chapter_number)s::text, %(created_by)s::text)
returning id, session_id, kind, message, chapter_number, created_by, created_at, answer, answered_by, answered_at;

-- name: of
select feedback.id, feedback.session_id, feedback.kind, feedback.message, feedback.chapter_number, feedback.created_by,
       feedback.created_at, feedback.answer, feedback.answered_by, feedback.answered_at
  from books.feedback as feedback
 where feedback.session_id = %(session_id)s::text
 order by feedback.id;

-- name: answer
update books.feedback as feedback
   set answer = %(answer)s::text, answered_by = %(answered_by)s::text, answered_at = now()
 where feedback.id = %(id)s::bigint
   and feedback.session_id = %(session_id)s::text
returning id, session_id, kind, message, chapter_number, created_by, created_at, answer, answered_by, answered_at;
