-- Examples: documents of which a person said the kind. One stands per document of a project; the unique index decides
-- between two people, and whoever comes second is told.

-- name: learn
-- From a decision about a result, in its transaction. An earlier example of the same document is replaced, and comes
-- back when this one is withdrawn.
with decided as materialized (
    select result.id, result.project_id, result.document_id, result.batch_id, result.sha256, result.chunk_used,
           concat_ws(' > ', result.proposed ->> 'category', result.proposed ->> 'subcategory') as found
      from retoma.classifications as result
     where result.id = %(result_id)s::bigint
),
earlier as (
    update classification.examples as example
       set replaced_at = now()
      from decided
     where example.project_id = decided.project_id
       and example.document_id = decided.document_id
       and example.withdrawn_at is null
       and example.replaced_at is null
    returning example.id
)
insert into classification.examples (project_id, document_id, batch_id, result_id, sha256, text_sha256, excerpt, label,
                                     proposed, source, decided_by, replaces)
select decided.project_id, decided.document_id, decided.batch_id, decided.id, decided.sha256,
       encode(sha256(convert_to(decided.chunk_used, 'UTF8')), 'hex'), decided.chunk_used, %(label)s::text,
       nullif(decided.found, ''), %(source)s::text, %(by)s::text, (select earlier.id from earlier)
  from decided
on conflict do nothing
returning id;

-- name: teach
-- From people who say it of documents by name. Where the document has been classified, its newest result says what was
-- found and which text was judged. One that has an example already is left alone, and does not come back.
insert into classification.examples (project_id, document_id, batch_id, result_id, sha256, text_sha256, excerpt, label,
                                     proposed, source, decided_by)
select document.project_id, document.id, found.batch_id, found.id, document.sha256,
       encode(sha256(convert_to(found.chunk_used, 'UTF8')), 'hex'), found.chunk_used, given.label, found.label,
       %(source)s::text, %(by)s::text
  from unnest(%(documents)s::bigint[], %(labels)s::text[]) as given (document_id, label)
  join retoma.project_documents as document on document.id = given.document_id
                                           and document.project_id = %(project_id)s::bigint
  left join lateral (
       select result.id, result.batch_id, result.chunk_used,
              concat_ws(' > ', result.category, result.subcategory) as label
         from retoma.classifications as result
        where result.document_id = document.id
          and result.processed_at is not null
        order by result.batch_id desc
        limit 1) as found on true
 order by document.id
on conflict do nothing
returning id, document_id, result_id, label;

-- name: apply
-- What was taught becomes the result of its document, once: a result that somebody decided stays as it is. What was
-- found stays in "proposed".
update retoma.classifications as result
   set proposed = json_build_object('category', result.category, 'subcategory', result.subcategory,
                                    'confidence', result.confidence, 'processed_at', result.processed_at),
       category = split_part(example.label, ' > ', 1),
       subcategory = nullif(substring(example.label from length(split_part(example.label, ' > ', 1)) + 4), ''),
       decided_by = example.decided_by,
       decided_at = now()
  from classification.examples as example
 where example.id = any (%(ids)s::bigint[])
   and example.withdrawn_at is null
   and example.replaced_at is null
   and result.document_id = example.document_id
   and (result.id = example.result_id or result.batch_id = %(batch_id)s::bigint)
   and result.decided_at is null
   and result.processed_at is not null
returning result.id;

-- name: known
-- Who said what of these documents before: the example that stands, or a decision about its newest result.
select document.id as document_id, coalesce(example.label, decided.label) as label,
       coalesce(example.decided_by, decided.decided_by) as decided_by,
       coalesce(example.decided_at, decided.decided_at) as decided_at
  from retoma.project_documents as document
  left join classification.examples as example
    on example.project_id = document.project_id
   and example.document_id = document.id
   and example.withdrawn_at is null
   and example.replaced_at is null
  left join lateral (
       select concat_ws(' > ', result.category, result.subcategory) as label, result.decided_by, result.decided_at
         from retoma.classifications as result
        where result.document_id = document.id
          and result.decided_at is not null
          and result.category is not null
        order by result.batch_id desc
        limit 1) as decided on example.id is null
 where document.id = any (%(documents)s::bigint[])
   and (example.id is not null or decided.label is not null);

-- name: page
-- Those that stand, or with *all* every one, in the order in which they came.
select example.id, example.project_id, example.document_id, document.code, document.filename, example.batch_id,
       example.result_id, example.text_sha256, example.label, example.proposed, example.source, example.decided_by,
       example.decided_at, example.withdrawn_by, coalesce(example.withdrawn_at, example.replaced_at) as withdrawn_at
  from classification.examples as example
  join retoma.project_documents as document on document.id = example.document_id
 where (%(project_id)s::bigint is null or example.project_id = %(project_id)s::bigint)
   and (%(id)s::bigint is null or example.id = %(id)s::bigint)
   and (%(document_id)s::bigint is null or example.document_id = %(document_id)s::bigint)
   and (%(all)s::boolean or example.withdrawn_at is null and example.replaced_at is null)
   and example.id > %(after)s::bigint
 order by example.id
 limit %(limit)s::integer;

-- name: unplaced
-- The texts of examples from outside a batch that lie nowhere in this space, each text once.
select distinct example.text_sha256, example.excerpt
  from classification.examples as example
 where example.project_id = %(project_id)s::bigint
   and example.withdrawn_at is null
   and example.replaced_at is null
   and example.excerpt ~ '[[:alnum:]]'
   and not exists (select
                     from retoma.classifications as own
                    where own.batch_id = %(batch_id)s::bigint
                      and own.document_id = example.document_id)
   and not exists (select
                     from classification.document_vectors as place
                    where place.result_id = example.result_id
                      and place.model = %(model)s::text)
   and not exists (select
                     from classification.vectors as vector
                    where vector.text_sha256 = example.text_sha256
                      and vector.model = %(model)s::text)
 order by example.text_sha256
 limit %(limit)s::integer;

-- name: lessons
-- Every example of a project that stands, in the order in which they came; one from outside the batch with the place of
-- its document, or of the text that was kept of it when that is gone.
select example.id, example.label, coalesce(document.filename, document.code) as title,
       own.id is not null as inside, place.vector as place, vector.vector as kept
  from classification.examples as example
  join retoma.project_documents as document on document.id = example.document_id
  left join retoma.classifications as own
    on own.batch_id = %(batch_id)s::bigint
   and own.document_id = example.document_id
  left join classification.document_vectors as place
    on own.id is null
   and place.result_id = example.result_id
   and place.model = %(model)s::text
  left join classification.vectors as vector
    on own.id is null
   and vector.text_sha256 = example.text_sha256
   and vector.model = %(model)s::text
 where example.project_id = %(project_id)s::bigint
   and example.withdrawn_at is null
   and example.replaced_at is null
 order by example.id;

-- name: counts
select example.label, count(*)::integer as examples,
       (count(*) filter (where example.proposed = example.label))::integer as agreed
  from classification.examples as example
 where example.project_id = %(project_id)s::bigint
   and example.withdrawn_at is null
   and example.replaced_at is null
 group by example.label
 order by count(*) desc, example.label;

-- name: withdraw
-- Once. The example that this one had replaced stands again.
with gone as (
    update classification.examples as example
       set withdrawn_at = now(),
           withdrawn_by = %(by)s::text
     where (example.id = %(id)s::bigint or example.result_id = %(result_id)s::bigint)
       and example.withdrawn_at is null
       and example.replaced_at is null
    returning example.id, example.replaces, example.result_id
),
back as (
    update classification.examples as example
       set replaced_at = null
      from gone
     where example.id = gone.replaces
       and example.withdrawn_at is null
    returning example.id
)
select gone.id, gone.result_id, (select count(*) from back)::integer as back from gone;
