-- What the documents of a batch say of each other. The last step of the batch writes it, each block in a transaction that
-- is held to the job's fence: a stale worker changes nothing.

-- name: place
-- Where a document lies; made anew with its result.
insert into classification.document_vectors (result_id, model, vector)
select result.id, %(model)s::text, %(vector)s::bytea
  from retoma.classifications as result
 where result.job_id = %(job_id)s::bigint
on conflict (result_id) do update
   set model = excluded.model,
       vector = excluded.vector
returning result_id;

-- name: copy_place
-- A result that was taken over lies where the result lies that it was taken from.
insert into classification.document_vectors (result_id, model, vector)
select result.id, place.model, place.vector
  from retoma.classifications as result
  join classification.document_vectors as place on place.result_id = result.copied_from
 where result.job_id = %(job_id)s::bigint
on conflict (result_id) do update
   set model = excluded.model,
       vector = excluded.vector
returning result_id;

-- name: material
-- The documents of a batch that have a result, with what was found in each alone. Their order is that of their content,
-- which is the same however and whenever they came.
select result.id, coalesce(result.sha256, '') as sha256, place.model, place.vector,
       result.answer ->> 'categoria' as category, result.answer ->> 'subcategoria' as subcategory,
       result.answer ->> 'confianca' as confidence, (result.answer -> 'pontuacoes')::text as shares,
       result.decided_at is not null as decided,
       concat_ws(' > ', result.category, result.subcategory) as label, result.confidence as band,
       result.score, result.margin, result.justification, coalesce(result.filename, result.code) as title
  from retoma.classifications as result
  join retoma.jobs as job on job.id = result.job_id and job.state in ('completed', 'skipped', 'review')
  left join classification.document_vectors as place on place.result_id = result.id
 where result.batch_id = %(batch_id)s::bigint
   and result.processed_at is not null
   and (coalesce(result.sha256, ''), result.id) > (%(sha)s::text, %(after)s::bigint)
 order by coalesce(result.sha256, ''), result.id
 limit %(limit)s::integer;

-- name: texts
-- The text of these documents, as far as it was kept.
select result.id, left(coalesce(result.chunk_used, ''), %(length)s::integer) as text
  from retoma.classifications as result
 where result.id = any (%(ids)s::bigint[])
 order by result.id;

-- name: find
insert into classification.findings (batch_id, job_id, outcome, documents, changed, others, rounds, groups, unused)
select execution.batch_id, %(job_id)s::bigint, %(outcome)s::text, %(documents)s::integer, %(changed)s::integer,
       %(others)s::integer, %(rounds)s::integer, %(groups)s::json, %(unused)s::json
  from retoma.executions as execution
 where execution.batch_id = %(batch_id)s::bigint
returning id;

-- name: plan
-- What is to change, with the finding it belongs to; nothing is changed yet.
insert into classification.changes (finding_id, result_id, before, after, why)
select %(finding_id)s::bigint, given.result_id, given.before, given.after, given.why
  from unnest(%(results)s::bigint[], %(befores)s::json[], %(afters)s::json[], %(whys)s::json[])
       as given (result_id, before, after, why)
returning result_id;

-- name: apply
-- The next results that change. What a person decided meanwhile, or what was made anew, is left alone; its change is
-- kept and never applied.
with piece as materialized (
    select change.result_id, change.before, change.after
      from classification.changes as change
     where change.finding_id = %(finding_id)s::bigint
       and change.result_id > %(after)s::bigint
     order by change.result_id
     limit %(limit)s::integer
),
changed as (
    update retoma.classifications as result
       set category = piece.after ->> 'category',
           subcategory = piece.after ->> 'subcategory',
           confidence = piece.after ->> 'confidence',
           score = (piece.after ->> 'score')::real,
           margin = (piece.after ->> 'margin')::real,
           justification = piece.after ->> 'justification'
      from piece
     where result.id = piece.result_id
       and result.decided_at is null
       and result.processed_at is not null
       and result.category is not distinct from piece.before ->> 'category'
       and result.subcategory is not distinct from piece.before ->> 'subcategory'
    returning result.id
),
noted as (
    update classification.changes as change
       set applied_at = now()
      from changed
     where change.result_id = changed.id
       and change.finding_id = %(finding_id)s::bigint
    returning change.result_id
),
told as (
    update retoma.reviews as review
       set proposal = json_build_object('category', piece.after ->> 'category', 'subcategory',
                                        piece.after ->> 'subcategory', 'confidence', piece.after ->> 'confidence'),
           label = concat_ws(' > ', piece.after ->> 'category', piece.after ->> 'subcategory'),
           reason = piece.after ->> 'justification',
           confidence = (piece.after ->> 'score')::real,
           margin = (piece.after ->> 'margin')::real,
           state = case when piece.after ->> 'confidence' = 'baixa' then 'open' else 'gone' end,
           settled_at = case when piece.after ->> 'confidence' = 'baixa' then null else now() end
      from piece
      join noted on noted.result_id = piece.result_id
     where review.source = 'classification'
       and review.item = piece.result_id::text
       and review.state = 'open'
       and (review.leased_until is null or review.leased_until <= now())
)
select piece.result_id, noted.result_id is not null as applied
  from piece
  left join noted on noted.result_id = piece.result_id
 order by piece.result_id;

-- name: latest
-- The last finding of a batch, with how many of its changes are applied.
select finding.id, finding.batch_id, finding.outcome, finding.documents, finding.changed, finding.others,
       finding.rounds, finding.groups, finding.unused, finding.found_at, counted.applied
  from classification.findings as finding
 cross join lateral (
       select count(change.applied_at)::integer as applied
         from classification.changes as change
        where change.finding_id = finding.id) as counted
 where finding.batch_id = %(batch_id)s::bigint
 order by finding.id desc
 limit 1;
