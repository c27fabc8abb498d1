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

-- name: keep_vectors
-- The same text has the same vector, whoever made it: a second one is not kept.
insert into classification.vectors (text_sha256, model, vector)
select given.text_sha256, %(model)s::text, decode(given.vector, 'hex')
  from unnest(%(hashes)s::text[], %(vectors)s::text[]) as given (text_sha256, vector)
 order by given.text_sha256
on conflict do nothing
returning text_sha256;

-- name: tell_desk
-- What waits at the review desk says what is proposed now, in the order in which the answers teach most, and what is in
-- doubt no more waits no more. What somebody looks at this moment stays as they see it.
update retoma.reviews as review
   set state = case when result.confidence = 'baixa' and result.decided_at is null then 'open' else 'gone' end,
       settled_at = case when result.confidence = 'baixa' and result.decided_at is null then null else now() end,
       proposal = json_build_object('category', result.category, 'subcategory', result.subcategory,
                                    'confidence', result.confidence),
       label = concat_ws(' > ', result.category, result.subcategory),
       reason = result.justification,
       confidence = least(greatest(result.score, 0), 1),
       margin = coalesce(place.turn, result.margin)
  from retoma.classifications as result
  left join classification.document_vectors as place on place.result_id = result.id
 where result.batch_id = %(batch_id)s::bigint
   and review.source = 'classification'
   and review.item = result.id::text
   and review.state = 'open'
   and (review.leased_until is null or review.leased_until <= now())
   and result.processed_at is not null
   and (review.label is distinct from concat_ws(' > ', result.category, result.subcategory)
        or review.margin is distinct from coalesce(place.turn, result.margin)
        or result.confidence <> 'baixa' or result.decided_at is not null)
returning review.id;

-- name: finish
-- When every change is applied. The last step of an execution, which nobody asked for, has no row yet. A result has
-- changed when its label is another, and not only its confidence.
insert into classification.refinements as refinement (batch_id, project_id, job_id, asked_by, examples, total, changed,
                                                      gain, finished_at)
select %(batch_id)s::bigint, %(project_id)s::bigint, %(job_id)s::bigint, '', %(examples)s::integer,
       %(total)s::integer, count(*)::integer, %(gain)s::json, now()
  from classification.changes as change
 where change.finding_id = %(finding_id)s::bigint
   and change.applied_at is not null
   and (change.before ->> 'category' is distinct from change.after ->> 'category'
        or change.before ->> 'subcategory' is distinct from change.after ->> 'subcategory')
on conflict (job_id) do update
   set examples = excluded.examples,
       total = excluded.total,
       changed = excluded.changed,
       gain = excluded.gain,
       finished_at = excluded.finished_at
returning refinement.id;
