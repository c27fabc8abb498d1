-- The documents of a project. Whoever adds one holds the project's row.

-- name: add
-- A file. The same content in the same project is the document that is there, also when it had been taken out. One
-- that was announced by its code, without a file, gets its file. A name that is taken by another content is told
-- apart by a part of the hash.
with same as materialized (
    select document.id, document.code, document.archived_at is not null as revived
      from retoma.project_documents as document
     where document.project_id = %(project_id)s::bigint
       and document.sha256 = %(sha)s::text
),
revived as (
    update retoma.project_documents as document
       set archived_at = null
      from same
     where document.id = same.id
       and same.revived
),
announced as (
    update retoma.project_documents as document
       set filename = %(filename)s::text,
           kind = %(kind)s::text,
           sha256 = %(sha)s::text,
           size = %(size)s::bigint,
           blob = %(blob)s::text,
           source = %(source)s::text,
           archived_at = null
     where document.id = (
           select waiting.id
             from retoma.project_documents as waiting
            where waiting.project_id = %(project_id)s::bigint
              and waiting.code in (%(code)s::text, %(stem)s::text)
              and waiting.blob is null
              and not exists (select from same)
            order by waiting.id
            limit 1)
    returning document.id, document.code
),
added as (
    insert into retoma.project_documents (project_id, code, filename, kind, sha256, size, blob, source)
    select %(project_id)s::bigint,
           case when exists (select from retoma.project_documents as other
                              where other.project_id = %(project_id)s::bigint and other.code = %(code)s::text)
                then %(other_code)s::text else %(code)s::text end,
           %(filename)s::text, %(kind)s::text, %(sha)s::text, %(size)s::bigint, %(blob)s::text, %(source)s::text
     where not exists (select from same)
       and not exists (select from announced)
    returning id, code
)
select same.id, same.code, same.revived as new from same
union all
select announced.id, announced.code, true as new from announced
union all
select added.id, added.code, true as new from added;

-- name: announce
-- Codes of documents whose files are still to come; what is there already stays, and comes back when it was taken out.
insert into retoma.project_documents as document (project_id, code, case_number, description, source)
select %(project_id)s::bigint, given.code, given.case_number, given.description, 'code'
  from unnest(%(codes)s::text[], %(case_numbers)s::text[], %(descriptions)s::text[])
       as given (code, case_number, description)
on conflict (project_id, code) do update
   set case_number = coalesce(excluded.case_number, document.case_number),
       description = coalesce(excluded.description, document.description),
       archived_at = null
returning document.id, (document.xmax = 0) as new;

-- name: page
-- The active ones, in the order in which they came.
select document.id, document.project_id, document.code, document.case_number, document.description,
       document.filename, document.kind, document.sha256, document.size, document.blob, document.source,
       document.created_at, document.archived_at
  from retoma.project_documents as document
 where document.project_id = %(project_id)s::bigint
   and document.archived_at is null
   and document.id > %(after)s::bigint
   and (%(ids)s::bigint[] is null or document.id = any (%(ids)s::bigint[]))
 order by document.id
 limit %(limit)s::integer;

-- name: one
select document.id, document.project_id, document.code, document.case_number, document.description,
       document.filename, document.kind, document.sha256, document.size, document.blob, document.source,
       document.created_at, document.archived_at
  from retoma.project_documents as document
 where document.id = %(id)s::bigint;

-- name: archive
-- Executions that have it keep it.
update retoma.project_documents as document
   set archived_at = coalesce(document.archived_at, now())
 where document.id = %(id)s::bigint
returning document.id;
