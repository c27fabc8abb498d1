-- Sign-ins at an OpenID provider that are under way. Each is taken once: of two requests with the same state, one gets it.

-- name: begin
insert into retoma.sign_ins (state_hash, browser_hash, nonce, verifier, place, expires_at)
values (%(state_hash)s::bytea, %(browser_hash)s::bytea, %(nonce)s::text, %(verifier)s::text, %(place)s::text,
        now() + make_interval(secs => %(lasts)s::float8))
returning place;

-- name: take
-- It is gone afterwards, also when the browser is another.
delete from retoma.sign_ins as begun
 where begun.state_hash = %(state_hash)s::bytea
returning begun.nonce, begun.verifier, begun.place,
          begun.expires_at > now() and begun.browser_hash = %(browser_hash)s::bytea as usable;

-- name: prune
delete from retoma.sign_ins as begun
 where begun.state_hash in (select old.state_hash
                              from retoma.sign_ins as old
                             where old.expires_at < now()
                             limit %(limit)s::integer)
returning begun.place;
