-- Who may come in over HTTP. Whether a key still opens is the database's word: it alone knows what time it is.

-- name: create
insert into retoma.api_keys (id, name, secret_hash, scopes, pipelines, expires_at)
values (%(id)s::text, %(name)s::text, %(secret_hash)s::bytea, %(scopes)s::text[], %(pipelines)s::text[],
        now() + make_interval(secs => %(expires)s::float8))
returning id, name, scopes, pipelines, created_at, expires_at, revoked_at, last_used_at, true as usable;

-- name: all
select key.id, key.name, key.scopes, key.pipelines, key.created_at, key.expires_at, key.revoked_at, key.last_used_at,
       key.revoked_at is null and coalesce(key.expires_at > now(), true) as usable
  from retoma.api_keys as key
 order by key.created_at, key.id;

-- name: lock_of
-- What a presented key is held against, and whether its last use was noted more than a minute ago.
select key.secret_hash,
       coalesce(key.last_used_at < now() - interval '1 minute', true) as rested,
       key.id, key.name, key.scopes, key.pipelines, key.created_at, key.expires_at, key.revoked_at, key.last_used_at,
       key.revoked_at is null and coalesce(key.expires_at > now(), true) as usable
  from retoma.api_keys as key
 where key.id = %(id)s::text;

-- name: use
-- Of many requests at once, one writes.
update retoma.api_keys as key
   set last_used_at = now()
 where key.id = %(id)s::text
   and coalesce(key.last_used_at < now() - interval '1 minute', true)
returning key.id;

-- name: revoke
update retoma.api_keys as key
   set revoked_at = coalesce(key.revoked_at, now())
 where key.id = %(id)s::text
returning key.id;

-- name: tally
-- A key that was revoked still counts as one that exists: taking the last key back must not open the door to all.
select count(*) as existing,
       count(*) filter (where key.revoked_at is null and coalesce(key.expires_at > now(), true)) as usable
  from retoma.api_keys as key;
