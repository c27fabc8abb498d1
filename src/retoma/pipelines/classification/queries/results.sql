-- Results: one row per document and execution. It is there from the start, and filled by the job that ends well.

-- name: begin
-- In the transaction that queues the jobs: a document has its row and its job, or neither.
insert into retoma.classifications (batch_id, document_id, project_id, job_id, code, case_number, filename, source,
                                    sha256, settings_hash)
select execution.batch_id, document.id, document.project_id, given.job_id, document.code, document.case_number,
       document.filename, document.source, document.sha256, execution.settings_hash
  from unnest(%(documents)s::bigint[], %(jobs)s::bigint[]) as given (document_id, job_id)
  join retoma.project_documents as document on document.id = given.document_id
 cross join retoma.executions as execution
 where execution.batch_id = %(batch_id)s::bigint
returning id;

-- name: given
-- Whether a job has the document that its row says, with the content and the blob it had when the job was made: a file
-- that was announced may have come since.
select result.id
  from retoma.classifications as result
  join retoma.project_documents as document on document.id = result.document_id
 where result.job_id = %(job_id)s::bigint
   and result.document_id = %(document_id)s::bigint
   and result.sha256 is not distinct from %(sha)s::text
   and (%(blob)s::text is null or document.blob = %(blob)s::text);

-- name: copy_known
-- What an earlier execution of the project found in the same content with the same settings: in the document alone, or
-- what a person decided. What its batch made of it is left to that batch. The settings are those the job runs under: a
-- re-plan may have changed them since its row was made. Runs in the transaction that saves the step, which is held to
-- the job's fence.
with earlier as materialized (
    select theirs.*,
           theirs.decided_at is null
           and exists (select from classification.changes as change
                        where change.result_id = theirs.id and change.applied_at is not null) as moved
      from retoma.classifications as mine
      join retoma.classifications as theirs
        on theirs.project_id = mine.project_id
       and theirs.sha256 = mine.sha256
       and theirs.settings_hash = %(settings_hash)s::text
       and theirs.processed_at is not null
       and theirs.batch_id <> mine.batch_id
     where mine.job_id = %(job_id)s::bigint
       and mine.processed_at is null
     order by theirs.id desc
     limit 1
)
update retoma.classifications as mine
   set settings_hash = earlier.settings_hash,
       category = earlier.category,
       subcategory = case when earlier.moved then earlier.answer ->> 'subcategoria' else earlier.subcategory end,
       confidence = case when earlier.moved then earlier.answer ->> 'confianca' else earlier.confidence end,
       score = case when earlier.moved then (earlier.answer ->> 'pontuacao')::real else earlier.score end,
       margin = case when earlier.moved then (earlier.answer ->> 'margem')::real else earlier.margin end,
       justification = case when earlier.moved then earlier.answer ->> 'justificativa_breve' else earlier.justification end,
       quote = earlier.quote,
       text_source = earlier.text_source,
       text_tokens = earlier.text_tokens,
       tokens = 0,
       cost = 0,
       chunk_used = earlier.chunk_used,
       answer = earlier.answer,
       copied_from = coalesce(earlier.copied_from, earlier.id),
       decided_by = earlier.decided_by,
       decided_at = earlier.decided_at,
       proposed = earlier.proposed,
       processed_at = now()
  from earlier
 where mine.job_id = %(job_id)s::bigint
returning earlier.batch_id;

-- name: save
-- In the transaction that saves the step, which is held to the job's fence: a stale worker changes nothing. Tokens and
-- cost are those of the job's own calls; an answer that was there already costs nothing, and a cost that nobody knows
-- is null.
update retoma.classifications as mine
   set settings_hash = %(settings_hash)s::text,
       category = %(category)s::text,
       subcategory = %(subcategory)s::text,
       confidence = %(confidence)s::text,
       score = %(score)s::real,
       margin = %(margin)s::real,
       justification = %(justification)s::text,
       quote = %(quote)s::text,
       case_number = coalesce(mine.case_number, %(case_number)s::text),
       text_source = %(text_source)s::text,
       text_tokens = %(text_tokens)s::integer,
       tokens = coalesce(called.tokens, %(tokens)s::integer),
       cost = case when called.unpriced then null else coalesce(called.cost, 0) end,
       chunk_used = %(chunk_used)s::text,
       answer = %(answer)s::json,
       copied_from = null,
       decided_by = null,
       decided_at = null,
       proposed = null,
       processed_at = now()
  from (select sum(call.input_tokens + call.output_tokens)::integer as tokens, sum(call.cost) as cost,
               coalesce(bool_or(call.cost is null and call.cost_basis is not null), false) as unpriced
          from retoma.calls as call
         where call.job_id = %(job_id)s::bigint) as called
 where mine.job_id = %(job_id)s::bigint
returning mine.id;

-- name: page
-- The documents of an execution, each with the state of its job, from one snapshot. An error is told while it matters:
-- of what failed, and of what is tried again.
select result.id, result.batch_id, result.document_id, result.job_id, result.code, result.case_number,
       result.filename, result.source, result.sha256, job.state, job.reason, job.attempt as attempts,
       job.max_attempts, result.category, result.subcategory, result.confidence, result.score, result.margin,
       result.justification, result.quote, result.text_source, result.text_tokens, result.tokens, result.cost,
       result.chunk_used, result.answer, result.copied_from,
       case when job.state = 'failed' then coalesce(job.error, bad.error, job.reason)
            when job.state in ('queued', 'running') then coalesce(bad.error, bad.reason) end as error,
       case when job.state in ('failed', 'queued', 'running') then bad.ended_at end as failed_at,
       result.created_at, result.processed_at, result.decided_by, result.decided_at, moved.before as was, moved.why
  from retoma.classifications as result
  join retoma.jobs as job on job.id = result.job_id
  left join lateral (
       select change.before, change.why
         from classification.changes as change
        where change.result_id = result.id
          and change.applied_at >= result.processed_at
        order by change.finding_id desc
        limit 1) as moved on true
  left join lateral (
       select attempt.error, attempt.reason, attempt.ended_at
         from retoma.attempts as attempt
        where attempt.job_id = job.id
          and attempt.ending in ('failed', 'crashed', 'lost', 'timeout')
        order by attempt.fence desc
        limit 1) as bad on job.state in ('failed', 'queued', 'running')
 where result.batch_id = %(batch_id)s::bigint
   and result.id > %(after)s::bigint
   and (%(category)s::text is null or result.category = %(category)s::text)
   and (%(confidence)s::text is null or result.confidence = %(confidence)s::text)
   and (%(states)s::text[] is null or job.state = any (%(states)s::text[]))
   and (%(jobs)s::bigint[] is null or result.job_id = any (%(jobs)s::bigint[]))
 order by result.id
 limit %(limit)s::integer;

-- name: mosaic
-- One letter per document in their order: for a picture of all of them at once.
select coalesce(string_agg(case job.state when 'queued' then 'q' when 'running' then 'r' when 'completed' then 'c'
                                          when 'skipped' then 's' when 'failed' then 'f' when 'review' then 'v'
                                          else 'x' end, '' order by result.id), '') as letters
  from retoma.classifications as result
  join retoma.jobs as job on job.id = result.job_id
 where result.batch_id = %(batch_id)s::bigint;

-- name: categories
select result.category, result.confidence, count(*)::integer as documents
  from retoma.classifications as result
 where result.batch_id = %(batch_id)s::bigint
   and result.processed_at is not null
 group by result.category, result.confidence
 order by result.category, result.confidence;
