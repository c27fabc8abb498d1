-- Documents: a file that somebody sent, once per content.

-- name: receive
-- Files become documents, unless their content is one already: then no id comes back. Two equal files at once: the
-- second waits here until the first has committed; rows are written in the order of their contents, so that two who
-- write the same never wait for each other in a ring. Each blob gets its owner in the same statement: one that the
-- sweep has given up is not held and gets none, for the row lock lets one of the two go first.
with asked as materialized (
    select *
      from unnest(%(filenames)s::text[], %(kinds)s::text[], %(mime_types)s::text[], %(sizes)s::bigint[],
                  %(contents)s::text[], %(blobs)s::text[], %(senders)s::text[], %(correlations)s::text[])
           as asked (filename, kind, mime_type, size, sha256, blob, uploaded_by, correlation_id)
),
held as materialized (
    select blob
      from retoma.loose_blobs
     where blob = any (%(blobs)s::text[])
       and dropped_at is null
     order by blob
       for update
),
new as (
    insert into retoma.documents (filename, kind, mime_type, size, sha256, blob, uploaded_by, correlation_id)
    select asked.filename, asked.kind, asked.mime_type, asked.size, asked.sha256, asked.blob, asked.uploaded_by,
           asked.correlation_id
      from asked
      join held using (blob)
     order by asked.sha256, asked.blob
        on conflict (sha256) do nothing
    returning id, blob
),
owned as (
    delete from retoma.loose_blobs as loose
     using new
     where loose.blob = new.blob
)
select asked.blob, new.id, held.blob is not null as held
  from asked
  left join held using (blob)
  left join new using (blob);

-- name: queue
-- In the transaction that queued the jobs; the old jobs, if there were any, are gone.
update retoma.documents as document
   set job_id = queued.job_id, updated_at = now()
  from unnest(%(ids)s::uuid[], %(jobs)s::bigint[]) as queued (id, job_id)
 where document.id = queued.id
returning document.id;

-- name: some
-- include: document
 where document.id = any (%(ids)s::uuid[]);

-- name: by_content
-- include: document
 where document.sha256 = %(content)s::text;

-- name: page
-- Newest first; what is searched for may stand anywhere in the name, and its wildcards mean themselves. A bounded number
-- of documents is looked at, one after the other, until so many fit.
select document.id, document.number, document.filename, document.kind, document.mime_type, document.size,
       document.sha256, document.blob, document.page_count, document.reader, document.job_id,
       document.uploaded_by, document.correlation_id, processing.status, processing.attempts,
       processing.error_log as error, document.created_at, document.processed_at, processing.updated_at
  from (select *
          from retoma.documents as document
         where document.number < coalesce(%(before)s::bigint, 9223372036854775807)
         order by document.number desc
         limit %(look)s::integer) as document
 cross join lateral (
       -- A limit, so that it is asked for each document that is looked at, and not for all there are.
       select processing.status, processing.attempts, processing.error_log, processing.updated_at
         from retoma.document_processing_jobs as processing
        where processing.document_id = document.id
        limit 1) as processing
 where (%(status)s::text is null or processing.status = %(status)s::text)
   and (%(search)s::text is null
        or document.filename ilike
           '%%' || replace(replace(replace(%(search)s::text, '\', '\\'), '%%', '\%%'), '_', '\_') || '%%')
 order by document.number desc
 limit %(limit)s::integer;

-- name: stop
-- Where such a look ends, when there are more documents behind.
select document.number
  from retoma.documents as document
 where document.number < coalesce(%(before)s::bigint, 9223372036854775807)
 order by document.number desc
offset %(look)s::integer - 1
 limit 1;

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
-- In the transaction that stores what was read. A job is believed only what the row says, too: no row comes back when
-- the document was removed meanwhile, or when the job is not the document's own or names another content.
update retoma.documents
   set page_count = %(page_count)s::integer, reader = %(reader)s::text, attempts = %(attempts)s::integer,
       processed_at = now(), updated_at = now()
 where id = %(id)s::uuid
   and job_id = %(job)s::bigint
   and sha256 = %(content)s::text
   and blob = %(blob)s::text
returning id;

-- name: remove
-- What was read goes with it; the blob is given up in the same transaction.
delete from retoma.documents
 where id = %(id)s::uuid
returning blob, job_id;
