-- What people decided about a quote, and its closed reports.

-- name: put
insert into quotes.reviews (quote_id, source_id, action, reason, by, before, after)
values (%(quote_id)s::bigint, %(source_id)s::bigint, %(action)s::text, %(reason)s::text, %(by)s::text,
        %(was)s::text, %(after)s::text)
returning id;

-- name: page
select review.id, review.quote_id, review.source_id, review.action, review.reason, review.by, review.before,
       review.after, review.created_at
  from quotes.reviews as review
 where review.quote_id = %(quote_id)s::bigint
 order by review.id;

-- name: of_many
select review.id, review.quote_id, review.source_id, review.action, review.reason, review.by, review.before,
       review.after, review.created_at
  from quotes.reviews as review
 where review.quote_id = any (%(quotes)s::bigint[])
 order by review.quote_id, review.id;

-- name: close
-- Once: a second report of the same thing is refused by the index, and nothing changes one that is closed.
insert into quotes.closed_reports (quote_id, batch_id, content, sha256, pdf_blob, xlsx_blob, closed_by)
values (%(quote_id)s::bigint, %(batch_id)s::bigint, %(content)s::json, %(sha256)s::text, %(pdf_blob)s::text,
        %(xlsx_blob)s::text, %(by)s::text)
on conflict do nothing
returning id;

-- name: closed
-- The content of a large batch has a hundred megabytes: it is read only by those who want it.
select report.id, report.quote_id, report.batch_id,
       case when %(whole)s::boolean then report.content end as content, report.sha256, report.pdf_blob, report.xlsx_blob,
       report.closed_by, report.closed_at
  from quotes.closed_reports as report
 where (%(id)s::bigint is null or report.id = %(id)s::bigint)
   and (%(quote_id)s::bigint is null or report.quote_id = %(quote_id)s::bigint)
   and (%(batch_id)s::bigint is null or report.batch_id = %(batch_id)s::bigint)
   and (%(sha256)s::text is null or report.sha256 = %(sha256)s::text)
 order by report.id desc
 limit 1;

-- name: closed_items
-- The reports of its items one by one, as the closed document has them: what PostgreSQL takes apart is never whole here.
select item.content::text as content
  from quotes.closed_reports as report
 cross join lateral json_array_elements(report.content -> 'reports') with ordinality as item (content, number)
 where report.id = %(id)s::bigint
   and item.number > %(after)s::bigint
 order by item.number
 limit %(limit)s::integer;
