-- Saved views: the query of a page under a name.

-- name: seen_by
-- One's own and those that are shared.
select view.id, view.name, view.page, view.query, view.owner, view.shared, view.created_at
  from retoma.views as view
 where (view.owner = %(owner)s::text or view.shared)
   and (%(page)s::text is null or view.page = %(page)s::text)
 order by view.page, view.name, view.id
 limit 500;

-- name: keep
-- The same name on the same page replaces one's own view; of two at the same time, the later one stays.
insert into retoma.views as view (name, page, query, owner, shared)
values (%(name)s::text, %(page)s::text, %(query)s::text, %(owner)s::text, %(shared)s::boolean)
on conflict (page, owner, name) do update set query = excluded.query, shared = excluded.shared
returning view.id, view.name, view.page, view.query, view.owner, view.shared, view.created_at;

-- name: remove
-- One's own; without an owner, anybody's.
delete from retoma.views as view
 where view.id = %(id)s::bigint
   and (%(owner)s::text is null or view.owner = %(owner)s::text)
returning view.id, view.name, view.page, view.query, view.owner, view.shared, view.created_at;
