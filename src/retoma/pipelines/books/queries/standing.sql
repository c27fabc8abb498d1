-- How a book stands, for the audit: as far as anybody may know who may look, and none of its words. A change of a title
-- shows in the hash of the list.

-- name: book
select jsonb_build_object('input', session.input_sha256, 'configuration', session.configuration_hash,
                          'job', session.job_id, 'job_state', job.state, 'runs', session.runs,
                          'approved_at', session.approved_at, 'finished_at', session.finished_at,
                          'chapters', chapter.listed, 'list', chapter.list, 'done', checkpoint.valid,
                          'feedback', feedback.given, 'answered', feedback.answered)::text as fields
  from books.sessions as session
  left join retoma.jobs as job on job.id = session.job_id
 cross join lateral (select count(*) as listed,
                            md5(string_agg(chapter.number || ' ' || chapter.title, e'\n' order by chapter.place)) as list
                       from books.chapters as chapter
                      where chapter.session_id = session.id) as chapter
 cross join lateral (select count(*) as valid
                       from books.checkpoints as checkpoint
                      where checkpoint.session_id = session.id and checkpoint.verdict = 'valid') as checkpoint
 cross join lateral (select count(*) as given, count(feedback.answered_at) as answered
                       from books.feedback as feedback
                      where feedback.session_id = session.id) as feedback
 where session.id = %(id)s::text;
