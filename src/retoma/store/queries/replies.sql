-- Stored replies to idempotent requests. A reply is written in the transaction of its work: both commit, or neither.

-- name: hold
-- Serialises this request until the transaction ends. The holder then looks for a reply in a separate statement,
-- because only a new snapshot sees what the previous holder has committed.
select pg_try_advisory_xact_lock(hashtextextended(
           concat_ws(E'\n', %(principal)s::text, %(route)s::text, %(key)s::text), 7368021116)) as held;

-- name: one
select reply.request_hash, reply.status, reply.headers::text as headers, reply.body
  from retoma.replies as reply
 where reply.principal = %(principal)s::text
   and reply.route = %(route)s::text
   and reply.key = %(key)s::text
   and reply.created_at > now() - interval '24 hours';

-- name: keep
-- A reply too old to be returned is replaced.
insert into retoma.replies (principal, route, key, request_hash, status, headers, body)
values (%(principal)s::text, %(route)s::text, %(key)s::text, %(request_hash)s::text, %(status)s::smallint,
        %(headers)s::json, %(body)s::text)
on conflict (principal, route, key) do update
   set request_hash = excluded.request_hash,
       status = excluded.status,
       headers = excluded.headers,
       body = excluded.body,
       created_at = now()
returning key;

-- name: prune
with old as materialized (
    select reply.principal, reply.route, reply.key
      from retoma.replies as reply
     where reply.created_at < now() - interval '24 hours'
     order by reply.created_at
     limit %(limit)s::integer
       for update skip locked
)
delete from retoma.replies as reply
 using old
 where (reply.principal, reply.route, reply.key) = (old.principal, old.route, old.key)
returning reply.key;
