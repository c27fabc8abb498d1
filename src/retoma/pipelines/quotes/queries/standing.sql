-- How quotes and the price bank stand, for the audit: as far as anybody may know who may look, and none of its words.

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

-- name: vehicle
select jsonb_build_object('code', vehicle.codigo_fipe, 'year', vehicle.ano, 'price', vehicle.price,
                          'mode', vehicle.update_mode, 'updated_at', vehicle.updated_at)::text as fields
  from quotes.price_bank as vehicle
 where vehicle.id = %(id)s::bigint;

-- name: bank_update
select jsonb_build_object('vehicle', change.vehicle_id, 'mode', change.mode, 'state', change.state,
                          'before', change.price_before, 'after', change.price_after,
                          'decided_by', change.decided_by)::text as fields
  from quotes.bank_updates as change
 where change.id = %(id)s::bigint;
