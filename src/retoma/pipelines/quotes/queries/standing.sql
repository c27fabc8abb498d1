-- How a quote stands, for the audit: as far as anybody may know who may look, and none of its words.

-- name: quote
select jsonb_build_object('status', quote.status, 'stage', quote.processing_checkpoint,
                          'attempt', quote.attempt_number, 'batch', quote.batch_job_id, 'job', quote.job_id,
                          'mean', quote.valor_medio, 'lowest', quote.valor_minimo, 'highest', quote.valor_maximo,
                          'sources', coalesce(source.accepted, 0), 'closed', closed.reports)::text as fields
  from quotes.quote_requests as quote
 cross join lateral (select count(*) filter (where source.is_accepted) as accepted
                       from quotes.quote_sources as source
                      where source.quote_id = quote.id) as source
 cross join lateral (select count(*) as reports
                       from quotes.closed_reports as report
                      where report.quote_id = quote.id) as closed
 where quote.id = %(id)s::bigint;
