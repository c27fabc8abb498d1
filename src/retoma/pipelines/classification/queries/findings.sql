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

-- name: unplaced
-- Results of a batch that lie nowhere in this space, each with the text that was judged.
select result.id, result.chunk_used as text
  from retoma.classifications as result
 where result.batch_id = %(batch_id)s::bigint
   and result.processed_at is not null
   and result.chunk_used ~ '[[:alnum:]]'
   and result.id > %(after)s::bigint
   and not exists (select
                     from classification.document_vectors as place
                    where place.result_id = result.id
                      and place.model = %(model)s::text)
 order by result.id
 limit %(limit)s::integer;

-- name: put
-- Where results lie that have no place in this space; one that was removed meanwhile is left out.
insert into classification.document_vectors (result_id, model, vector)
select result.id, %(model)s::text, given.vector
  from unnest(%(results)s::bigint[], %(vectors)s::bytea[]) as given (result_id, vector)
  join retoma.classifications as result on result.id = given.result_id
 order by result.id
on conflict (result_id) do update
   set model = excluded.model,
       vector = excluded.vector
returning result_id;

-- name: material
-- The documents of a batch that have a result, with what was found in each alone, and with what a person said of it, here
-- or elsewhere in the project. Their order is that of their content, which is the same however and whenever they came.
select result.id, coalesce(result.sha256, '') as sha256, place.model, place.vector,
       result.answer ->> 'categoria' as category, result.answer ->> 'subcategoria' as subcategory,
       result.answer ->> 'confianca' as confidence, (result.answer -> 'pontuacoes')::text as shares,
       result.decided_at is not null as decided,
       concat_ws(' > ', result.category, result.subcategory) as label, result.confidence as band,
       result.score, result.margin, result.justification, coalesce(result.filename, result.code) as title,
       example.id as example_id, example.label as said,
       concat_ws(' > ', result.proposed ->> 'category', result.proposed ->> 'subcategory') as proposed
  from retoma.classifications as result
  join retoma.jobs as job on job.id = result.job_id and job.state in ('completed', 'skipped', 'review')
  left join classification.document_vectors as place on place.result_id = result.id
  left join classification.examples as example
    on example.project_id = result.project_id
   and example.document_id = result.document_id
   and example.withdrawn_at is null
   and example.replaced_at is null
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
)
select piece.result_id, noted.result_id is not null as applied
  from piece
  left join noted on noted.result_id = piece.result_id
 order by piece.result_id;

-- name: line_up
-- In which order a person is asked about the doubtful results of a batch. All others lose their turn.
with turns as materialized (
    select given.result_id, given.turn
      from unnest(%(results)s::bigint[], %(turns)s::real[]) as given (result_id, turn)
)
update classification.document_vectors as place
   set turn = (select turns.turn from turns where turns.result_id = place.result_id)
  from retoma.classifications as result
 where result.batch_id = %(batch_id)s::bigint
   and place.result_id = result.id
   and place.turn is distinct from (select turns.turn from turns where turns.result_id = place.result_id)
returning place.result_id;

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
