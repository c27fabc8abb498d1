-- Products that were tested: one row each, also when the step is done again.

-- name: save
insert into quotes.quote_sources (quote_id, key, position, kind, provider, title, seller, url, domain, page_title,
                                  listed_price, price_value, currency, dated, extraction_method, evidence_blob,
                                  evidence_sha256, evidence_kind, screenshot_file_id, screenshot_sha256,
                                  without_screenshot, captured_at, is_valid, failure_reason, failure_message, detail,
                                  added_by)
values (%(quote_id)s::bigint, %(key)s::text,
        (select 1 + count(*)::integer from quotes.quote_sources as before where before.quote_id = %(quote_id)s::bigint),
        %(kind)s::text, %(provider)s::text, %(title)s::text, %(seller)s::text, %(url)s::text, %(domain)s::text,
        %(page_title)s::text, %(listed_price)s::numeric, %(price)s::numeric, %(currency)s::text,
        %(dated)s::timestamptz, %(method)s::text, %(evidence_blob)s::text, %(evidence_sha256)s::text,
        %(evidence_kind)s::text, %(screenshot)s::text, %(screenshot_sha256)s::text, %(without_screenshot)s::text,
        %(captured_at)s::timestamptz, %(is_valid)s::boolean, %(reason)s::text, %(message)s::text, %(detail)s::json,
        %(by)s::text)
on conflict (quote_id, key) do nothing
returning id;

-- name: page
select source.id, source.quote_id, source.key, source.position, source.kind, source.provider, source.title,
       source.seller, source.url, source.domain, source.page_title, source.listed_price, source.price_value,
       source.currency, source.dated, source.extraction_method, source.evidence_blob, source.evidence_sha256,
       source.evidence_kind, source.screenshot_file_id, source.screenshot_sha256, source.without_screenshot,
       source.captured_at, source.is_valid, source.is_outlier, source.is_accepted, source.failure_reason,
       source.failure_message, source.detail, source.added_by, source.tested_at
  from quotes.quote_sources as source
 where source.quote_id = any (%(quotes)s::bigint[])
 order by source.quote_id, source.position;

-- name: drop
update quotes.quote_sources as source
   set is_valid = false, is_accepted = false, failure_reason = 'BY_PERSON', failure_message = %(why)s::text
 where source.id = %(id)s::bigint and source.quote_id = %(quote_id)s::bigint and source.is_valid
returning source.id;

-- name: take
-- A price that was good and left out: a person counts it in. What was refused for a fault stays refused.
update quotes.quote_sources as source
   set is_valid = true, is_accepted = true, failure_reason = null, failure_message = %(why)s::text
 where source.id = %(id)s::bigint and source.quote_id = %(quote_id)s::bigint and source.price_value is not null
   and (source.is_valid or source.failure_reason in ('BY_PERSON', 'OUTSIDE_BLOCK', 'PRICE_MISMATCH'))
returning source.id;

-- name: picture
-- Once: a picture that is there stays. Where none could be taken, the row says why.
update quotes.quote_sources as source
   set screenshot_file_id = %(blob)s::text,
       screenshot_sha256 = %(sha256)s::text,
       without_screenshot = %(missing)s::text
 where source.id = %(id)s::bigint and source.quote_id = %(quote_id)s::bigint and source.screenshot_file_id is null
returning source.id;
