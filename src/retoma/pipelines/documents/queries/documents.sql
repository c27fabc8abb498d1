-- Documents: a file that somebody sent, once per content.

-- name: receive
-- Two equal files at once: the second waits here until the first has committed, and gets no row.
insert into retoma.documents (filename, kind, mime_type, size, sha256, blob, uploaded_by, correlation_id)
values (%(filename)s::text, %(kind)s::text, %(mime_type)s::text, %(size)s::bigint, %(content)s::text, %(blob)s::text,
        %(uploaded_by)s::text, %(correlation_id)s::text)
    on conflict (sha256) do nothing
returning id;

-- name: queue
-- In the transaction that queued the job; the old job, if there was one, is gone.
update retoma.documents
   set job_id = %(job_id)s::bigint, updated_at = now()
 where id = %(id)s::uuid
returning id;

-- name: one
-- include: document
 where document.id = %(id)s::uuid;

-- name: by_content
-- include: document
 where document.sha256 = %(content)s::text;

-- name: page
-- Newest first; what is searched for may stand anywhere in the name, and its wildcards mean themselves.
-- include: document
 where (%(before)s::bigint is null or document.number < %(before)s::bigint)
   and (%(status)s::text is null or processing.status = %(status)s::text)
   and (%(search)s::text is null
        or document.filename ilike
           '%%' || replace(replace(replace(%(search)s::text, '\', '\\'), '%%', '\%%'), '_', '\_') || '%%')
 order by document.number desc
 limit %(limit)s::integer;

-- name: statuses
select processing.id, processing.document_id, processing.status, processing.attempts, processing.error_log,
       processing.created_at, processing.started_at, processing.completed_at, processing.updated_at, processing.job_id
  from retoma.document_processing_jobs as processing
 where processing.document_id = any (%(ids)s::uuid[])
 order by processing.document_id;

-- name: hold
-- Whoever asks for another processing goes alone: a second one sees what the first has done.
select id, filename, kind, sha256, blob
  from retoma.documents
 where id = %(id)s::uuid
   for update;

-- name: finish
-- In the transaction that stores what was read. No row comes back when the document was removed meanwhile.
update retoma.documents
   set page_count = %(page_count)s::integer, reader = %(reader)s::text, attempts = %(attempts)s::integer,
       processed_at = now(), updated_at = now()
 where id = %(id)s::uuid
returning id;

-- name: remove
-- What was read goes with it; the blob is given up in the same transaction.
delete from retoma.documents
 where id = %(id)s::uuid
returning blob, job_id;
