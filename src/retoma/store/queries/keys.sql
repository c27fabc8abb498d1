-- API keys. Only the database decides whether a key is still accepted, because its clock is the only one.

-- name: create
insert into retoma.api_keys (id, name, secret_hash, scopes, pipelines, expires_at)
values (%(id)s::text, %(name)s::text, %(secret_hash)s::bytea, %(scopes)s::text[], %(pipelines)s::text[],
        now() + make_interval(secs => %(expires)s::float8))
returning id, name, scopes, pipelines, created_at, expires_at, revoked_at, last_used_at, true as usable,
          coalesce(expires_at < now() + make_interval(days => 14), false) as ends_soon;

-- name: all
select key.id, key.name, key.scopes, key.pipelines, key.created_at, key.expires_at, key.revoked_at, key.last_used_at,
       key.revoked_at is null and coalesce(key.expires_at > now(), true) as usable,
       coalesce(key.expires_at < now() + make_interval(days => 14), false) as ends_soon
  from retoma.api_keys as key
 order by key.created_at, key.id;

-- name: lock_of
-- What a presented key is compared with, and whether its last use was noted more than a minute ago.
select key.secret_hash,
       case when key.previous_until > now() then key.previous_hash end as previous_hash,
       coalesce(key.last_used_at < now() - interval '1 minute', true) as rested,
       key.id, key.name, key.scopes, key.pipelines, key.created_at, key.expires_at, key.revoked_at, key.last_used_at,
       key.revoked_at is null and coalesce(key.expires_at > now(), true) as usable,
       coalesce(key.expires_at < now() + make_interval(days => 14), false) as ends_soon
  from retoma.api_keys as key
 where key.id = %(id)s::text;

-- name: use
-- Of many concurrent requests, one writes.
update retoma.api_keys as key
   set last_used_at = now()
 where key.id = %(id)s::text
   and coalesce(key.last_used_at < now() - interval '1 minute', true)
returning key.id;

-- name: revoke
-- The sessions that were opened with the key end too.
with ended as (
    update retoma.sessions as session
       set ended_at = now()
     where session.key_id = %(id)s::text
       and session.ended_at is null
)
update retoma.api_keys as key
   set revoked_at = coalesce(key.revoked_at, now())
 where key.id = %(id)s::text
returning key.id;

-- name: rotate
-- Sets a new secret. The previous one is accepted until the grace period ends, and so are the sessions opened with it.
with shortened as (
    update retoma.sessions as session
       set expires_at = least(session.expires_at, now() + make_interval(secs => %(grace)s::float8))
     where session.key_id = %(id)s::text
       and session.ended_at is null
)
update retoma.api_keys as key
   set secret_hash = %(secret_hash)s::bytea,
       previous_hash = key.secret_hash,
       previous_until = now() + make_interval(secs => %(grace)s::float8),
       rotated_at = now(),
       expires_at = case when %(never)s::boolean then null
                         else now() + make_interval(secs => %(expires)s::float8) end
 where key.id = %(id)s::text
   and key.revoked_at is null
returning key.id, key.name, key.scopes, key.pipelines, key.created_at, key.expires_at, key.revoked_at,
          key.last_used_at, true as usable, false as ends_soon;

-- name: tally
-- A revoked key and a removed account still count as existing: that the last one goes must not open the server to
-- everybody.
select key.existing + account.existing as existing, key.usable + account.usable as usable, account.usable as people
  from (select count(*) as existing,
               count(*) filter (where key.revoked_at is null and coalesce(key.expires_at > now(), true)) as usable
          from retoma.api_keys as key) as key
 cross join (
       select count(*) as existing,
              count(*) filter (where account.locked_at is null and account.removed_at is null) as usable
         from retoma.users as account) as account;
