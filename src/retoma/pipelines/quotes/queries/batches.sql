-- Lists of items that became batches.

-- name: create
insert into quotes.batch_quote_jobs (id, project_id, config_version_id, input_type, filename, sha256, columns,
                                     created_by)
values (%(id)s::bigint, %(project_id)s::bigint, %(config_version_id)s::bigint, %(input_type)s::text,
        %(filename)s::text, %(sha256)s::text, %(columns)s::json, %(by)s::text)
returning id;

-- name: put_items
insert into quotes.batch_items (batch_id, line, quote_id, problem, message, said)
select %(batch_id)s::bigint, given.line, given.quote_id, given.problem, given.message, given.said
  from unnest(%(lines)s::integer[], %(quotes)s::bigint[], %(problems)s::text[], %(messages)s::text[],
              %(said)s::text[])
       as given (line, quote_id, problem, message, said)
returning line;

-- name: page
select batch.id, batch.project_id, batch.config_version_id, batch.input_type, batch.filename, batch.sha256,
       batch.columns, batch.created_by, batch.created_at, engine.name, engine.state, engine.reason,
       (select count(*)::integer from quotes.batch_items as item where item.batch_id = batch.id) as rows,
       (select count(*)::integer from quotes.batch_items as item
         where item.batch_id = batch.id and item.problem is not null) as problems
  from quotes.batch_quote_jobs as batch
  left join retoma.batches as engine on engine.id = batch.id
 where (%(id)s::bigint is null or batch.id = %(id)s::bigint)
   and (%(project_id)s::bigint is null or batch.project_id = %(project_id)s::bigint)
   and (%(before)s::bigint is null or batch.id < %(before)s::bigint)
 order by batch.id desc
 limit %(limit)s::integer;

-- name: same
-- A list with this content that was sent before, with the same configuration, and has not ended.
select batch.id
  from quotes.batch_quote_jobs as batch
  join retoma.batches as engine on engine.id = batch.id
 where batch.sha256 = %(sha256)s::text
   and batch.config_version_id = %(config_version_id)s::bigint
   and engine.state in ('queued', 'running', 'paused', 'stalled')
 order by batch.id desc
 limit 1;

-- name: items
select item.line, item.quote_id, item.problem, item.message, item.said
  from quotes.batch_items as item
 where item.batch_id = %(batch_id)s::bigint
   and item.line > %(after)s::integer
   and (not %(only_problems)s::boolean or item.problem is not null)
 order by item.line
 limit %(limit)s::integer;
