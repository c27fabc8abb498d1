-- Quotes that await a review, at the review desk of the engine.

-- name: doubts
-- Quotes with too few prices that no open review names, the oldest first. A quote of a closed report is not for a
-- decision.
select quote.id::text as item, 'process-quote' as pipeline, quote.completed_at as since, quote.job_id, job.batch_id,
       left(coalesce(quote.codigo_item || ' · ', '') || quote.input_text, 200) as title,
       'too few prices' as reason,
       json_build_object('status', 'DONE', 'valor_medio', quote.valor_medio)::text as proposal,
       %(label)s::text as label, 'configuration ' || quote.config_version_id as version, null::real as confidence,
       null::real as margin
  from quotes.quote_requests as quote
  left join retoma.jobs as job on job.id = quote.job_id
 where quote.status = 'AWAITING_REVIEW'
   and not exists (select from quotes.closed_reports as report
                    where report.quote_id = quote.id or report.batch_id = quote.batch_job_id)
   and not exists (select
                     from retoma.reviews as review
                    where review.source = 'quotes'
                      and review.item = quote.id::text
                      and (review.state = 'open' or review.settled_at >= quote.completed_at))
 order by quote.id
 limit %(limit)s::integer;

-- name: back
-- A decision was undone: the quote awaits its review again.
update quotes.quote_requests as quote
   set status = 'AWAITING_REVIEW',
       current_step = 'awaiting_review',
       error_message = null
 where quote.id = %(id)s::bigint
   and quote.status in ('DONE', 'ERROR')
   and not exists (select from quotes.closed_reports as report
                    where report.quote_id = quote.id or report.batch_id = quote.batch_job_id)
returning quote.id;
