-- Who did what. Rows are only added; nothing updates them, and only their age removes them.

-- name: write
insert into retoma.audit (who, name, via, address, route, action, object_kind, object_id, before, after,
                          correlation_id, outcome, times)
select entry.who, entry.name, entry.via, entry.address, entry.route, entry.action, entry.object_kind,
       entry.object_id, entry.before::jsonb, entry.after::jsonb, entry.correlation_id, entry.outcome, entry.times
  from unnest(%(who)s::text[], %(name)s::text[], %(via)s::text[], %(address)s::text[], %(route)s::text[],
              %(action)s::text[], %(object_kind)s::text[], %(object_id)s::text[], %(before)s::text[],
              %(after)s::text[], %(correlation_id)s::text[], %(outcome)s::text[], %(times)s::integer[])
       with ordinality as entry (who, name, via, address, route, action, object_kind, object_id, before, after,
                                 correlation_id, outcome, times, place)
 order by entry.place
returning id;

-- name: page
-- Newest first.
select audit.id, audit.at, audit.who, audit.name, audit.via, audit.address, audit.route, audit.action,
       audit.object_kind, audit.object_id, audit.before::text as before, audit.after::text as after,
       audit.correlation_id, audit.outcome, audit.times
  from retoma.audit as audit
 where (%(who)s::text is null or audit.who = %(who)s::text or audit.name = %(who)s::text)
   and (%(action)s::text is null or audit.action = %(action)s::text)
   and (%(object_kind)s::text is null or audit.object_kind = %(object_kind)s::text)
   and (%(object_id)s::text is null or audit.object_id = %(object_id)s::text)
   and (%(outcome)s::text is null or audit.outcome = %(outcome)s::text)
   and (%(since)s::timestamptz is null or audit.at >= %(since)s::timestamptz)
   and (%(until)s::timestamptz is null or audit.at < %(until)s::timestamptz)
   and (%(lately)s::float8 is null or audit.at >= now() - make_interval(secs => %(lately)s::float8))
   and (%(before)s::bigint is null or audit.id < %(before)s::bigint)
 order by audit.id desc
 limit %(limit)s::integer;

-- name: prune
-- The only way to delete: the trigger of the table allows it for old rows while this setting is on.
with said as materialized (
    select set_config('retoma.prunes', 'audit', true) as pruned
),
old as materialized (
    select audit.id
      from retoma.audit as audit
     cross join said
     where audit.at < now() - make_interval(secs => greatest(%(older_than)s::float8, 86400))
       and said.pruned = 'audit'
     order by audit.at
     limit %(limit)s::integer
)
delete from retoma.audit as audit
 using old
 where audit.id = old.id
returning audit.id;
