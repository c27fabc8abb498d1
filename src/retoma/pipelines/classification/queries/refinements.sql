-- Refinements: an execution gone through again with what people taught.

-- name: begin
-- In the transaction that queues its job, which holds the batch: of two who ask at once, one begins it.
insert into classification.refinements (batch_id, project_id, job_id, asked_by)
values (%(batch_id)s::bigint, %(project_id)s::bigint, %(job_id)s::bigint, %(by)s::text)
returning id;

-- name: page
-- Those of an execution, the newest first, each with the state of its job.
select refinement.id, refinement.batch_id, refinement.project_id, refinement.job_id, refinement.asked_by,
       refinement.asked_at, job.state, refinement.examples, refinement.total, refinement.changed, refinement.gain,
       refinement.finished_at
  from classification.refinements as refinement
  left join retoma.jobs as job on job.id = refinement.job_id
 where (%(batch_id)s::bigint is null or refinement.batch_id = %(batch_id)s::bigint)
   and (%(id)s::bigint is null or refinement.id = %(id)s::bigint)
   and (not %(open)s::boolean or job.state in ('queued', 'running'))
 order by refinement.id desc
 limit %(limit)s::integer;

-- name: material
-- The results of an execution in order. *said* is what a person said of the document, here or elsewhere in the project.
select result.id, result.document_id, concat_ws(' > ', result.category, result.subcategory) as label,
       result.confidence, result.answer -> 'pontuacoes' as shares, result.chunk_used as text,
       result.decided_at is not null as decided, example.id as example_id, example.label as said,
       concat_ws(' > ', result.proposed ->> 'category', result.proposed ->> 'subcategory') as proposed
  from retoma.classifications as result
  left join classification.examples as example
    on example.project_id = result.project_id
   and example.document_id = result.document_id
   and example.withdrawn_at is null
   and example.replaced_at is null
 where result.batch_id = %(batch_id)s::bigint
   and result.processed_at is not null
   and result.chunk_used is not null
   and result.id > %(after)s::bigint
 order by result.id
 limit %(limit)s::integer;

-- name: vectors
select vector.text_sha256, vector.vector
  from classification.vectors as vector
 where vector.model = %(model)s::text
   and vector.text_sha256 = any (%(hashes)s::text[]);

-- name: keep_vectors
-- The same text has the same vector, whoever made it: a second one is not kept.
insert into classification.vectors (text_sha256, model, vector)
select given.text_sha256, %(model)s::text, decode(given.vector, 'hex')
  from unnest(%(hashes)s::text[], %(vectors)s::text[]) as given (text_sha256, vector)
 order by given.text_sha256
on conflict do nothing
returning text_sha256;

-- name: change
-- What the machine finds now. What a person decided, and what was made anew meanwhile, is left alone.
update retoma.classifications as result
   set category = split_part(given.label, ' > ', 1),
       subcategory = nullif(substring(given.label from length(split_part(given.label, ' > ', 1)) + 4), ''),
       confidence = given.confidence,
       score = given.score,
       margin = given.margin,
       justification = given.justification,
       processed_at = now()
  from unnest(%(ids)s::bigint[], %(were)s::text[], %(labels)s::text[], %(confidences)s::text[], %(scores)s::real[],
              %(margins)s::real[], %(justifications)s::text[])
       as given (id, was, label, confidence, score, margin, justification)
 where result.id = given.id
   and result.batch_id = %(batch_id)s::bigint
   and result.decided_at is null
   and result.processed_at is not null
   and concat_ws(' > ', result.category, result.subcategory) = given.was
returning result.id;

-- name: tell_desk
-- What waits at the review desk says what is proposed now, and what is in doubt no more waits no more. What somebody
-- looks at this moment stays as they see it.
update retoma.reviews as review
   set state = case when result.confidence = 'baixa' and result.decided_at is null then 'open' else 'gone' end,
       settled_at = case when result.confidence = 'baixa' and result.decided_at is null then null else now() end,
       proposal = json_build_object('category', result.category, 'subcategory', result.subcategory,
                                    'confidence', result.confidence),
       label = concat_ws(' > ', result.category, result.subcategory),
       reason = result.justification,
       confidence = least(greatest(result.score, 0), 1),
       margin = result.margin
  from retoma.classifications as result
 where result.batch_id = %(batch_id)s::bigint
   and review.source = 'classification'
   and review.item = result.id::text
   and review.state = 'open'
   and (review.leased_until is null or review.leased_until <= now())
   and result.processed_at is not null
   and (review.label is distinct from concat_ws(' > ', result.category, result.subcategory)
        or review.margin is distinct from result.margin::double precision
        or result.confidence <> 'baixa' or result.decided_at is not null)
returning review.id;

-- name: finish
-- In the transaction that changes the results. The last step of an execution, which nobody asked for, has no row yet.
insert into classification.refinements as refinement (batch_id, project_id, job_id, asked_by, examples, total, changed,
                                                      gain, finished_at)
values (%(batch_id)s::bigint, %(project_id)s::bigint, %(job_id)s::bigint, '', %(examples)s::integer,
        %(total)s::integer, %(changed)s::integer, %(gain)s::json, now())
on conflict (job_id) do update
   set examples = excluded.examples,
       total = excluded.total,
       changed = excluded.changed,
       gain = excluded.gain,
       finished_at = excluded.finished_at
returning refinement.id;
