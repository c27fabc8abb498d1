-- What was read from a document. It is replaced as a whole, in the transaction of the step that stores it.

-- name: clear
-- The row of the document is locked by then, so nobody else writes these.
with fields as (delete from retoma.document_fields where document_id = %(id)s::uuid),
     tables as (delete from retoma.document_tables where document_id = %(id)s::uuid),
     chunks as (delete from retoma.document_chunks where document_id = %(id)s::uuid returning place)
select count(*) from chunks;

-- name: put_fields
insert into retoma.document_fields (document_id, place, name, value, confidence, page)
select %(id)s::uuid, field.place, field.name, field.value, field.confidence, field.page
  from json_to_recordset(%(fields)s::json)
       as field (place integer, name text, value text, confidence real, page integer)
returning place;

-- name: put_tables
insert into retoma.document_tables (document_id, place, page, rows)
select %(id)s::uuid, found.place, found.page, found.rows
  from json_to_recordset(%(tables)s::json) as found (place integer, page integer, rows json)
returning place;

-- name: put_chunks
insert into retoma.document_chunks (document_id, place, content, section_type, title, page_start, page_end,
                                    token_count, provider, model, dimensions, vector)
select %(id)s::uuid, chunk.place, chunk.content, chunk.section_type, chunk.title, chunk.page_start, chunk.page_end,
       chunk.token_count, %(provider)s::text, %(model)s::text, cardinality(chunk.vector), chunk.vector
  from json_to_recordset(%(chunks)s::json)
       as chunk (place integer, content text, section_type text, title text, page_start integer, page_end integer,
                 token_count integer, vector real[])
returning place;

-- name: fields
select name, value, confidence, page
  from retoma.document_fields
 where document_id = %(id)s::uuid
 order by place;

-- name: tables
select rows, page
  from retoma.document_tables
 where document_id = %(id)s::uuid
 order by place;

-- name: chunks
select place, content, section_type, title, page_start, page_end, token_count
  from retoma.document_chunks
 where document_id = %(id)s::uuid
   and place > %(after)s::integer
 order by place
 limit %(limit)s::integer;
