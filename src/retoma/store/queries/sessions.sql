-- Browser sessions. Only the database decides whether a session is still accepted, because its clock is the only one.

-- name: open
-- A link opens one session: of several requests with it, one gets a row back. A link that was printed too
-- long ago opens none.
insert into retoma.sessions (id, secret_hash, opened_by, key_id, user_id, proof, link_hash, address, expires_at)
select %(id)s::text, %(secret_hash)s::bytea, %(opened_by)s::text, %(key_id)s::text, %(user_id)s::text, %(proof)s::bytea,
       %(link_hash)s::bytea, %(address)s::text, now() + make_interval(secs => %(lasts)s::float8)
 where %(made)s::float8 is null
    or to_timestamp(%(made)s::float8) > now() - make_interval(secs => %(lasts)s::float8)
on conflict (link_hash) do nothing
returning id;

-- name: lock_of
-- What a presented session is compared with; a session opened with a key or by a user also needs these to be accepted.
select session.secret_hash, session.opened_by, session.proof,
       session.seen_at < now() - interval '1 minute' as rested,
       session.ended_at is null and session.expires_at > now() as usable,
       account.id as user_id, account.name as user_name, account.role,
       key.id, key.name, key.scopes, key.pipelines, key.created_at, key.expires_at, key.revoked_at, key.last_used_at,
       coalesce(key.revoked_at is null and coalesce(key.expires_at > now(), true), false) as key_usable,
       coalesce(key.expires_at < now() + make_interval(days => 14), false) as ends_soon
  from retoma.sessions as session
  left join retoma.api_keys as key on key.id = session.key_id
  left join retoma.users as account
    on account.id = session.user_id and account.locked_at is null and account.removed_at is null
 where session.id = %(id)s::text;

-- name: seen
-- Of many concurrent requests, one writes.
update retoma.sessions as session
   set seen_at = now()
 where session.id = %(id)s::text
   and session.seen_at < now() - interval '1 minute'
returning session.id;

-- name: end
update retoma.sessions as session
   set ended_at = coalesce(session.ended_at, now())
 where session.id = %(id)s::text
returning session.id;

-- name: all
-- Newest first; sessions that are no longer accepted only on request.
select session.id, session.opened_by, session.key_id, session.user_id, coalesce(key.name, account.name) as name,
       session.address, session.created_at, session.seen_at, session.expires_at, session.ended_at,
       session.ended_at is null and session.expires_at > now()
           and (session.key_id is null
                or coalesce(key.revoked_at is null and coalesce(key.expires_at > now(), true), false)) as usable
  from retoma.sessions as session
  left join retoma.api_keys as key on key.id = session.key_id
  left join retoma.users as account on account.id = session.user_id
 where %(over)s::boolean
    or session.ended_at is null and session.expires_at > now()
 order by session.created_at desc, session.id
 limit %(limit)s::integer;

-- name: gone
-- Of the keys and sessions that hold streams open, those that are no longer accepted; one query for all of them.
select wanted.id
  from unnest(%(keys)s::text[]) as wanted (id)
  left join retoma.api_keys as key on key.id = wanted.id
 where key.revoked_at is not null
    or coalesce(key.expires_at <= now(), false)
    or key.id is null
union all
select wanted.id
  from unnest(%(sessions)s::text[]) as wanted (id)
  left join retoma.sessions as session on session.id = wanted.id
  left join retoma.api_keys as key on key.id = session.key_id
 where session.id is null
    or session.ended_at is not null
    or session.expires_at <= now()
    or session.key_id is not null and (key.revoked_at is not null or coalesce(key.expires_at <= now(), false));

-- name: prune
delete from retoma.sessions as session
 where session.id in (select old.id
                        from retoma.sessions as old
                       where old.expires_at < now() - make_interval(secs => %(older_than)s::float8)
                       limit %(limit)s::integer)
returning session.id;
