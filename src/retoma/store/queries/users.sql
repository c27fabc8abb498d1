-- People's accounts. Whatever takes something from an account also ends the sessions that were opened with it, in the
-- same statement: no session outlives the right to it.

-- name: add
-- Of two that add the same name, the second gets no row back.
insert into retoma.users (id, name, role, password_hash, password_at)
values (%(id)s::text, %(name)s::text, %(role)s::text, %(password_hash)s::text,
        case when %(password_hash)s::text is not null then now() end)
on conflict do nothing
returning id, name, role, password_at is not null as has_password, issuer, created_at, password_at, signed_in_at,
          locked_at;

-- name: all
select account.id, account.name, account.role, account.password_at is not null as has_password, account.issuer,
       account.created_at, account.password_at, account.signed_in_at, account.locked_at
  from retoma.users as account
 where account.removed_at is null
 order by account.name;

-- name: find
-- By id or by name; a name cannot look like an id.
select account.id, account.name, account.role, account.password_at is not null as has_password, account.issuer,
       account.created_at, account.password_at, account.signed_in_at, account.locked_at
  from retoma.users as account
 where account.removed_at is null
   and (account.id = %(who)s::text or account.name = %(who)s::text);

-- name: lock_of
-- What a given password is compared with.
select account.password_hash,
       account.id, account.name, account.role, account.password_at is not null as has_password, account.issuer,
       account.created_at, account.password_at, account.signed_in_at, account.locked_at
  from retoma.users as account
 where account.name = %(name)s::text
   and account.removed_at is null;

-- name: set_role
with ended as (
    update retoma.sessions as session
       set ended_at = now()
     where session.user_id = %(id)s::text
       and session.ended_at is null
)
update retoma.users as account
   set role = %(role)s::text
 where account.id = %(id)s::text
   and account.removed_at is null
returning account.id;

-- name: set_password
with ended as (
    update retoma.sessions as session
       set ended_at = now()
     where session.user_id = %(id)s::text
       and session.ended_at is null
)
update retoma.users as account
   set password_hash = %(password_hash)s::text,
       password_at = now()
 where account.id = %(id)s::text
   and account.removed_at is null
returning account.id;

-- name: rehash
-- The same password under newer parameters; nothing is written when the password was changed meanwhile.
update retoma.users as account
   set password_hash = %(password_hash)s::text
 where account.id = %(id)s::text
   and account.password_hash = %(before)s::text
returning account.id;

-- name: signed_in
update retoma.users as account
   set signed_in_at = now()
 where account.id = %(id)s::text
   and account.locked_at is null
   and account.removed_at is null
returning account.id;

-- name: lock
with ended as (
    update retoma.sessions as session
       set ended_at = now()
     where session.user_id = %(id)s::text
       and session.ended_at is null
)
update retoma.users as account
   set locked_at = coalesce(account.locked_at, now())
 where account.id = %(id)s::text
   and account.removed_at is null
returning account.id;

-- name: unlock
update retoma.users as account
   set locked_at = null
 where account.id = %(id)s::text
   and account.removed_at is null
returning account.id;

-- name: remove
-- The row stays without its secrets: a server that had accounts does not become open when the last one goes.
with ended as (
    update retoma.sessions as session
       set ended_at = now()
     where session.user_id = %(id)s::text
       and session.ended_at is null
)
update retoma.users as account
   set removed_at = now(),
       password_hash = null
 where account.id = %(id)s::text
   and account.removed_at is null
returning account.id;

-- name: arrive
-- Somebody whom an OpenID provider vouches for: the account of that identity gets the role that the provider says. A
-- name that another account has stays with it, and then no row comes back.
with known as (
    update retoma.users as account
       set role = %(role)s::text
     where account.issuer = %(issuer)s::text
       and account.subject = %(subject)s::text
       and account.removed_at is null
    returning account.id, account.name, account.role, account.password_at is not null as has_password,
              account.issuer, account.created_at, account.password_at, account.signed_in_at, account.locked_at
),
added as (
    insert into retoma.users (id, name, role, issuer, subject)
    select %(id)s::text, %(name)s::text, %(role)s::text, %(issuer)s::text, %(subject)s::text
     where not exists (select from known)
    on conflict do nothing
    returning id, name, role, password_at is not null as has_password, issuer, created_at, password_at, signed_in_at,
              locked_at
)
select known.id, known.name, known.role, known.has_password, known.issuer, known.created_at, known.password_at,
       known.signed_in_at, known.locked_at
  from known
union all
select added.id, added.name, added.role, added.has_password, added.issuer, added.created_at, added.password_at,
       added.signed_in_at, added.locked_at
  from added;
