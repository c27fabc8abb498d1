-- What a person decides about a result that is not sure. The desk of the engine holds the job's row while this runs.

-- name: doubts
-- Results with a low confidence that nobody has decided and that no open review names, the oldest first. A doubt is as old
-- as the result, or as the last change that a refinement made to it. Its margin is its turn, where the batch gave it one.
select result.id::text as item, 'classification' as pipeline, found.since, result.job_id,
       result.batch_id, coalesce(result.filename, result.code) as title, result.justification as reason,
       json_build_object('category', result.category, 'subcategory', result.subcategory,
                         'confidence', result.confidence)::text as proposal,
       concat_ws(' > ', result.category, result.subcategory) as label,
       left(result.settings_hash, 12) as version, least(greatest(result.score, 0), 1) as confidence,
       coalesce(place.turn, result.margin) as margin
  from retoma.classifications as result
  join retoma.jobs as job on job.id = result.job_id and job.state in ('completed', 'skipped')
  left join classification.document_vectors as place on place.result_id = result.id
 cross join lateral (
       select greatest(result.processed_at, max(change.applied_at)) as since
         from classification.changes as change
        where change.result_id = result.id) as found
 where result.confidence = 'baixa'
   and result.decided_at is null
   and result.processed_at is not null
   and not exists (select
                     from retoma.reviews as review
                    where review.source = 'classification'
                      and review.item = result.id::text
                      and (review.state = 'open' or review.settled_at >= found.since))
 order by result.id
 limit %(limit)s::integer;

-- name: seen
-- A result as a person is shown it, while it is in doubt; with the labels that its job ran under, and whether its file is
-- still the one that was judged.
select result.id, result.batch_id, result.category, result.subcategory, result.justification, result.quote,
       result.chunk_used, result.filename, result.code, result.case_number, result.answer::text as answer,
       coalesce(cohort.configuration, batch.configuration) -> 'labels' as labels, document.kind,
       coalesce(document.sha256 = result.sha256, false) as kept
  from retoma.classifications as result
  join retoma.batches as batch on batch.id = result.batch_id
  join retoma.project_documents as document on document.id = result.document_id
  left join retoma.jobs as job on job.id = result.job_id
  left join retoma.cohorts as cohort on cohort.batch_id = result.batch_id and cohort.number = job.cohort
 where result.id = %(id)s::bigint
   and result.decided_at is null
   and result.processed_at is not null;

-- name: decide
-- Once: a result that somebody decided, or that is being made anew, is left alone. What was found stays in "proposed".
update retoma.classifications as result
   set proposed = json_build_object('category', result.category, 'subcategory', result.subcategory,
                                    'confidence', result.confidence, 'processed_at', result.processed_at),
       category = %(category)s::text,
       subcategory = %(subcategory)s::text,
       confidence = case when %(category)s::text is null then null else result.confidence end,
       processed_at = case when %(category)s::text is null then null else result.processed_at end,
       decided_by = %(by)s::text,
       decided_at = now()
 where result.id = %(id)s::bigint
   and result.decided_at is null
   and result.processed_at is not null
returning result.id;

-- name: undo
update retoma.classifications as result
   set category = result.proposed ->> 'category',
       subcategory = result.proposed ->> 'subcategory',
       confidence = result.proposed ->> 'confidence',
       processed_at = (result.proposed ->> 'processed_at')::timestamptz,
       proposed = null,
       decided_by = null,
       decided_at = null
 where result.id = %(id)s::bigint
   and result.decided_at is not null
returning result.id;
