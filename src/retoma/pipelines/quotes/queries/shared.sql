-- name: standing
-- A quote as it stands now, with what the engine knows of its job: a job that failed is told at once, and a worker that
-- lives is a sign of life of all that it holds.
(select quote.id, quote.job_id, quote.project_id, quote.config_version_id,
        case when quote.status not in ('PENDING', 'PROCESSING') then quote.status
             when job.state = 'failed' then 'ERROR'
             when job.state = 'cancelled' then 'CANCELLED'
             when job.state = 'running' then 'PROCESSING'
             else quote.status end as status,
        quote.status as written_status,
        quote.input_type, quote.input_text, quote.input_blob, quote.input_sha256, quote.input_kind, quote.input_more,
        quote.codigo_item, quote.local, quote.pesquisador, quote.unit, quote.quantity,
        quote.conservation, quote.years_used, quote.years_left, quote.book_value,
        quote.claude_payload_json, quote.search_query_final, quote.google_shopping_response_json,
        quote.shopping_response_saved_at, quote.valor_medio, quote.valor_minimo, quote.valor_maximo,
        quote.variacao_percentual,
        case when quote.status in ('PENDING', 'PROCESSING') and job.state = 'failed'
             then coalesce(job.error, job.reason) else quote.error_message end as error_message,
        quote.current_step, quote.progress_percentage, quote.step_details, quote.attempt_number,
        quote.original_quote_id, quote.requote_number, quote.batch_job_id, quote.batch_index,
        quote.processing_checkpoint,
        case when job.state = 'running' then greatest(quote.last_heartbeat, worker.seen_at)
             else quote.last_heartbeat end as last_heartbeat,
        quote.worker_id, quote.resume_data, quote.started_at,
        case when quote.status in ('PENDING', 'PROCESSING') and job.state in ('failed', 'cancelled')
             then job.finished_at else quote.completed_at end as completed_at,
        quote.created_at, quote.created_by, job.state as job_state,
        coalesce(job.state = 'running' and worker.lease_expires_at > now(), false) as alive
   from quotes.quote_requests as quote
   left join retoma.jobs as job on job.id = quote.job_id
   left join retoma.workers as worker on worker.id = job.worker_id) as quote

-- name: reaching
-- How far a quote has come; what is not told stays as it was.
   set processing_checkpoint = coalesce(%(checkpoint)s::text, quote.processing_checkpoint),
       current_step = %(step)s::text,
       progress_percentage = %(percentage)s::smallint,
       step_details = %(details)s::json,
       resume_data = coalesce(%(resume_data)s::json, quote.resume_data),
       claude_payload_json = coalesce(%(analysis)s::json, quote.claude_payload_json),
       search_query_final = coalesce(%(query)s::text, quote.search_query_final),
       google_shopping_response_json = coalesce(%(shopping)s::json, quote.google_shopping_response_json),
       shopping_response_saved_at = case when %(shopping)s::json is null then quote.shopping_response_saved_at
                                         else now() end,
       last_heartbeat = now()
