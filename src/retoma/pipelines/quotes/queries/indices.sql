-- The tables of price indices that were loaded.

-- name: put
-- The same file again makes no second row, and gives none back.
insert into quotes.index_tables (index, source, dated, first_month, last_month, content, sha256, loaded_by)
values (%(index)s::text, %(source)s::text, %(dated)s::date, %(first_month)s::text, %(last_month)s::text,
        %(content)s::text, %(sha256)s::text, %(by)s::text)
on conflict (sha256) do nothing
returning id;

-- name: page
select loaded.id, loaded.index, loaded.source, loaded.dated, loaded.first_month, loaded.last_month, loaded.content,
       loaded.sha256, loaded.loaded_by, loaded.loaded_at
  from quotes.index_tables as loaded
 where (%(index)s::text is null or loaded.index = %(index)s::text)
   and (%(sha256)s::text is null or loaded.sha256 = %(sha256)s::text)
 order by loaded.dated desc, loaded.id desc
 limit %(limit)s::integer;
