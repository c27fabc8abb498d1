-- Quotes: their rows, as workers write them and as people see them.

-- name: create
-- In the transaction that queues the jobs: a quote has its row and its job, or neither.
insert into quotes.quote_requests (job_id, project_id, config_version_id, input_type, input_text, input_blob,
                                   input_sha256, input_kind, input_more, codigo_item, local, pesquisador, unit, quantity,
                                   conservation, years_used, years_left, book_value, original_quote_id, requote_number, batch_job_id, batch_index, created_by)
select given.job_id, %(project_id)s::bigint, %(config_version_id)s::bigint, %(input_type)s::text, given.input_text,
       given.input_blob, given.input_sha256, given.input_kind, given.input_more::json, given.codigo_item, given.local, %(pesquisador)s::text,
       given.unit, given.quantity, given.conservation, given.years_used, given.years_left, given.book_value,
       %(original_quote_id)s::bigint, %(requote_number)s::integer,
       %(batch_job_id)s::bigint, given.batch_index, %(by)s::text
  from unnest(%(jobs)s::bigint[], %(texts)s::text[], %(blobs)s::text[], %(shas)s::text[], %(kinds)s::text[],
              %(more)s::text[],
              %(codes)s::text[], %(places)s::text[], %(units)s::text[], %(quantities)s::numeric[],
              %(conservations)s::text[], %(used)s::integer[], %(left)s::integer[], %(book_values)s::numeric[],
              %(indexes)s::integer[])
       as given (job_id, input_text, input_blob, input_sha256, input_kind, input_more, codigo_item, local, unit, quantity,
                 conservation, years_used, years_left, book_value, batch_index)
returning id, batch_index;

-- name: wanted
select quote.id as quote_id, quote.input_type, quote.input_text, quote.input_blob, quote.input_sha256,
       quote.input_kind, quote.codigo_item, quote.unit, quote.quantity, configuration.terms, quote.input_more
  from quotes.quote_requests as quote
  join quotes.configurations as configuration on configuration.id = quote.config_version_id
 where quote.job_id = %(job_id)s::bigint;

-- name: begin
-- At every claim, in a transaction that is held to the job's fence. An attempt that somebody was killed over counts as a
-- recovery, and so does each that a person asked for.
update quotes.quote_requests as quote
   set status = 'PROCESSING',
       worker_id = holder.called,
       last_heartbeat = now(),
       started_at = case when quote.status = 'ERROR' then now() else coalesce(quote.started_at, now()) end,
       completed_at = null,
       error_message = null,
       attempt_number = greatest(quote.attempt_number, 1 + holder.lost)
  from (select job.id, left(worker.label || '#' || worker.id, 100) as called,
               (select count(*)::integer from retoma.attempts as attempt
                 where attempt.job_id = job.id
                   and (attempt.ending in ('crashed', 'lost') or attempt.reason = 'beside')) as lost
          from retoma.jobs as job
          left join retoma.workers as worker on worker.id = job.worker_id
         where job.id = %(job_id)s::bigint) as holder
 where quote.job_id = holder.id
   and quote.status in ('PENDING', 'PROCESSING', 'ERROR')
   and not (quote.status = 'ERROR' and starts_with(coalesce(quote.error_message, ''), 'given_up:'))
returning quote.id;

-- name: init
-- The first stage and what is wanted, in the transaction that saves the step. A quote that is over gives no row.
update quotes.quote_requests as quote
   set processing_checkpoint = 'INIT',
       current_step = %(step)s::text,
       progress_percentage = %(percentage)s::smallint,
       step_details = null,
       last_heartbeat = now()
  from quotes.configurations as configuration
 where quote.job_id = %(job_id)s::bigint
   and quote.status = 'PROCESSING'
   and configuration.id = quote.config_version_id
returning quote.id as quote_id, quote.input_type, quote.input_text, quote.input_blob, quote.input_sha256,
          quote.input_kind, quote.codigo_item, quote.unit, quote.quantity, configuration.terms, quote.input_more;

-- name: advance
-- In the transaction that saves the step. A quote that was cancelled or given up meanwhile gives no row.
update quotes.quote_requests as quote
-- include: reaching
 where quote.id = %(id)s::bigint and quote.status = 'PROCESSING'
returning quote.id;

-- name: advance_tested
-- The same, with the products that were tested: one statement, however many they are. A product that is there already
-- stays as it is, and takes no place of its own.
with reached as (
    update quotes.quote_requests as quote
-- include: reaching
     where quote.id = %(id)s::bigint and quote.status = 'PROCESSING'
    returning quote.id
), saved as (
    insert into quotes.quote_sources (quote_id, key, position, kind, provider, title, seller, url, domain, page_title,
                                      listed_price, price_value, currency, dated, extraction_method, evidence_blob,
                                      evidence_sha256, evidence_kind, screenshot_file_id, screenshot_sha256,
                                      without_screenshot, captured_at, is_valid, failure_reason, failure_message, detail,
                                      added_by)
    select reached.id, given.key,
           (select count(*) from quotes.quote_sources as before where before.quote_id = reached.id)
               + row_number() over (order by given.number),
           given.kind, given.provider, given.title, given.seller, given.url, given.domain, given.page_title,
           given.listed_price, given.price, given.currency, given.dated, given.method, given.evidence_blob,
           given.evidence_sha256, given.evidence_kind, given.screenshot, given.screenshot_sha256,
           given.without_screenshot, given.captured_at, given.is_valid, given.reason, given.message, given.detail,
           given.by
      from reached
     cross join json_to_recordset(%(given)s::json) as given (
               number integer, key text, kind text, provider text, title text, seller text, url text, domain text,
               page_title text, listed_price numeric, price numeric, currency text, dated timestamptz, method text,
               evidence_blob text, evidence_sha256 text, evidence_kind text, screenshot text, screenshot_sha256 text,
               without_screenshot text, captured_at timestamptz, is_valid boolean, reason text, message text,
               detail json, by text)
     where not exists (select 1 from quotes.quote_sources as before
                        where before.quote_id = reached.id and before.key = given.key)
    on conflict (quote_id, key) do nothing
)
select reached.id from reached;

-- name: finish
-- The end, and the prices that make the value and no others: all of it, or nothing where the quote is over.
with ended as (
    update quotes.quote_requests as quote
       set status = %(status)s::text,
           processing_checkpoint = coalesce(%(checkpoint)s::text, quote.processing_checkpoint),
           current_step = %(step)s::text,
           progress_percentage = coalesce(%(percentage)s::smallint, quote.progress_percentage),
           valor_medio = %(mean)s::numeric,
           valor_minimo = %(lowest)s::numeric,
           valor_maximo = %(highest)s::numeric,
           variacao_percentual = %(spread)s::numeric,
           error_message = %(error)s::text,
           last_heartbeat = now(),
           completed_at = now(),
           worker_id = null
     where quote.id = %(id)s::bigint and quote.status = 'PROCESSING'
    returning quote.id
), accepted as (
    update quotes.quote_sources as source
       set is_accepted = source.key = any (%(keys)s::text[])
      from ended
     where source.quote_id = ended.id
       and source.is_valid
)
select ended.id from ended;

-- name: page
select quote.id, quote.job_id, quote.project_id, quote.config_version_id, quote.status, quote.input_type,
       quote.input_text, quote.input_blob, quote.input_sha256, quote.input_kind, quote.input_more, quote.codigo_item,
       quote.local, quote.pesquisador, quote.unit, quote.quantity, quote.conservation, quote.years_used, quote.years_left,
       quote.book_value,
       case when %(whole)s::boolean then quote.claude_payload_json end as claude_payload_json,
       quote.search_query_final,
       case when %(whole)s::boolean then quote.google_shopping_response_json end as google_shopping_response_json,
       quote.shopping_response_saved_at, quote.valor_medio, quote.valor_minimo, quote.valor_maximo,
       quote.variacao_percentual, quote.error_message, quote.current_step, quote.progress_percentage,
       quote.step_details, quote.attempt_number, quote.original_quote_id, quote.requote_number, quote.batch_job_id,
       quote.batch_index, quote.processing_checkpoint, quote.last_heartbeat, quote.worker_id,
       case when %(whole)s::boolean then quote.resume_data end as resume_data,
       quote.started_at, quote.completed_at, quote.created_at, quote.created_by, quote.job_state, quote.alive
  from
-- include: standing
 where (%(id)s::bigint is null or quote.id = %(id)s::bigint)
   and (%(job_id)s::bigint is null or quote.job_id = %(job_id)s::bigint)
   and (%(batch_id)s::bigint is null or quote.batch_job_id = %(batch_id)s::bigint)
   and (%(project_id)s::bigint is null or quote.project_id = %(project_id)s::bigint)
   and (%(statuses)s::text[] is null or quote.status = any (%(statuses)s::text[]))
   and (%(written)s::text[] is null or quote.written_status = any (%(written)s::text[]))
   and (%(search)s::text is null or position(lower(%(search)s::text) in lower(quote.input_text)) > 0
        or quote.codigo_item = %(search)s::text)
   and (%(since)s::timestamptz is null or quote.created_at >= %(since)s::timestamptz)
   and (%(until)s::timestamptz is null or quote.created_at < %(until)s::timestamptz)
   and (%(before)s::bigint is null or quote.id < %(before)s::bigint)
 order by quote.id desc
 limit %(limit)s::integer
offset %(offset)s::integer;

-- name: stuck
-- No sign of life of the row, nor of whoever holds the job.
select quote.id, quote.created_at, quote.processing_checkpoint as checkpoint, quote.last_heartbeat, quote.worker_id,
       quote.batch_job_id, left(quote.input_text, 100) as input_text
  from
-- include: standing
 where quote.written_status = 'PROCESSING'
   and quote.status = 'PROCESSING'
   and not quote.alive
   and quote.last_heartbeat < now() - make_interval(mins => %(minutes)s::integer)
   and (%(batch_id)s::bigint is null or quote.batch_job_id = %(batch_id)s::bigint)
 order by quote.last_heartbeat, quote.id
 limit %(limit)s::integer;

-- name: stats
-- All four figures of one moment; the mean is of the last hundred that were done.
with processing as materialized (
    select coalesce(quote.processing_checkpoint, 'INIT') as checkpoint,
           not quote.alive and quote.last_heartbeat < now() - make_interval(mins => %(minutes)s::integer) as is_stuck
      from
-- include: standing
     where quote.written_status = 'PROCESSING' and quote.status = 'PROCESSING'
), counted as (
    select processing.checkpoint, count(*)::integer as quotes, count(*) filter (where processing.is_stuck)::integer as stuck
      from processing
     group by processing.checkpoint
)
select coalesce((select sum(counted.quotes)::integer from counted), 0) as total_processing,
       coalesce((select sum(counted.stuck)::integer from counted), 0) as stuck_count,
       coalesce((select json_object_agg(counted.checkpoint, counted.quotes order by counted.quotes desc) from counted),
                '{}'::json) as by_checkpoint,
       (select round(avg(extract(epoch from done.completed_at - done.started_at))::numeric, 2)
          from (select quote.completed_at, quote.started_at
                  from quotes.quote_requests as quote
                 where quote.status = 'DONE' and quote.started_at is not null
                 order by quote.completed_at desc
                 limit 100) as done) as avg_processing_time_seconds;

-- name: distribution
-- The quotes of a batch by how they stand and how far they came.
select quote.status, coalesce(quote.processing_checkpoint, 'INIT') as checkpoint, count(*)::integer as quotes,
       count(*) filter (where quote.status = 'PROCESSING' and not quote.alive
                          and quote.last_heartbeat < now() - make_interval(mins => %(minutes)s::integer))::integer
           as stuck
  from
-- include: standing
 where quote.batch_job_id = %(batch_id)s::bigint
 group by quote.status, coalesce(quote.processing_checkpoint, 'INIT')
 order by quote.status, checkpoint;

-- name: recover
-- Quotes that nobody works on, and whose job waits to be taken: no worker, one attempt more, and the last sign of life as
-- it was, so that one that is lost again is found again.
with stuck as (
    select quote.id
      from quotes.quote_requests as quote
      join retoma.jobs as job on job.id = quote.job_id
     where quote.status = 'PROCESSING'
       and (%(id)s::bigint is null or quote.id = %(id)s::bigint)
       and (%(batch_id)s::bigint is null or quote.batch_job_id = %(batch_id)s::bigint)
       and quote.last_heartbeat < now() - make_interval(mins => %(minutes)s::integer)
       and job.state = 'queued'
     order by quote.id
       for no key update of quote skip locked
)
update quotes.quote_requests as quote
   set status = 'PENDING', worker_id = null, attempt_number = quote.attempt_number + 1
  from stuck
 where quote.id = stuck.id
returning quote.id, quote.attempt_number, quote.processing_checkpoint;

-- name: settle
-- Quotes whose job has ended without a word in their row: its last attempt crashed, or failed, or it was called off.
with ended as (
    select quote.id, job.state, job.finished_at, coalesce(job.error, job.reason) as error
      from quotes.quote_requests as quote
      join retoma.jobs as job on job.id = quote.job_id
     where quote.status in ('PENDING', 'PROCESSING')
       and job.state in ('failed', 'cancelled')
     order by quote.id
       for no key update of quote skip locked
)
update quotes.quote_requests as quote
   set status = case ended.state when 'failed' then 'ERROR' else 'CANCELLED' end,
       current_step = case ended.state when 'failed' then 'error' else 'cancelled' end,
       error_message = ended.error,
       completed_at = ended.finished_at,
       worker_id = null
  from ended
 where quote.id = ended.id
returning quote.id;

-- name: give_up
-- By when it was begun: one that waited long in the queue is not old.
update quotes.quote_requests as quote
   set status = 'ERROR',
       current_step = 'error',
       error_message = 'given_up: it was begun more than ' || %(hours)s::integer || ' hours ago and did not end.',
       completed_at = now(),
       worker_id = null
 where quote.status = 'PROCESSING'
   and quote.started_at < now() - make_interval(hours => %(hours)s::integer)
returning quote.id;

-- name: cancel
update quotes.quote_requests as quote
   set status = 'CANCELLED', current_step = 'cancelled', completed_at = now(), worker_id = null
 where quote.status in ('PENDING', 'PROCESSING')
   and (%(id)s::bigint is null or quote.id = %(id)s::bigint)
   and (%(batch_id)s::bigint is null or quote.batch_job_id = %(batch_id)s::bigint)
   and (%(id)s::bigint is not null or %(batch_id)s::bigint is not null)
returning quote.id, quote.job_id;

-- name: reset
-- Those of a batch that ended in an error wait again; what their steps have found is kept.
update quotes.quote_requests as quote
   set status = 'PENDING', error_message = null, completed_at = null, current_step = null
 where quote.batch_job_id = %(batch_id)s::bigint and quote.status = 'ERROR'
returning quote.id;

-- name: decide
-- What a person made of it: the values of the prices that count now.
update quotes.quote_requests as quote
   set status = %(status)s::text,
       current_step = %(step)s::text,
       valor_medio = %(mean)s::numeric,
       valor_minimo = %(lowest)s::numeric,
       valor_maximo = %(highest)s::numeric,
       variacao_percentual = %(spread)s::numeric,
       error_message = %(error)s::text
 where quote.id = %(id)s::bigint and quote.status in ('AWAITING_REVIEW', 'DONE')
returning quote.id;

-- name: hold_many
select quote.id
  from quotes.quote_requests as quote
 where quote.id = any (%(ids)s::bigint[])
 order by quote.id
   for no key update;

-- name: hold
select quote.status
  from quotes.quote_requests as quote
 where quote.id = %(id)s::bigint
   for no key update;
