-- People.
--
-- users         accounts: a name, a role, and an Argon2 hash of a password or the identity at an OpenID provider
-- tries         sign-ins that failed, by name and by address; a row is refused until its time has passed
-- sign_ins      sign-ins at an OpenID provider that are under way: each is used once, and soon forgotten
-- sessions      may also be opened by a user

create table retoma.users (
    id               text primary key,
    name             text not null,
    role             text not null,
    password_hash    text,
    issuer           text,
    subject          text,
    created_at       timestamptz not null default now(),
    password_at      timestamptz,
    signed_in_at     timestamptz,
    locked_at        timestamptz,
    removed_at       timestamptz,
    constraint a_role_is_known check (role in ('reader', 'reviewer', 'operator', 'admin')),
    constraint an_identity_has_two_parts check ((issuer is null) = (subject is null))
);

-- A name that was removed may be given again.
create unique index users_by_name on retoma.users (name) where removed_at is null;
create unique index users_by_identity on retoma.users (issuer, subject) where removed_at is null;

create table retoma.tries (
    subject          text primary key,
    failures         integer not null,
    last_at          timestamptz not null default now(),
    refused_until    timestamptz
);

create index tries_by_age on retoma.tries (last_at);

create table retoma.sign_ins (
    state_hash       bytea primary key,
    browser_hash     bytea not null,
    nonce            text not null,
    verifier         text not null,
    place            text not null,
    expires_at       timestamptz not null
);

create index sign_ins_by_age on retoma.sign_ins (expires_at);

-- Rows of before are of the other three ways, so nothing is checked again.
alter table retoma.sessions
    add column user_id text,
    drop constraint a_session_is_opened_in_one_of_three_ways,
    add constraint a_session_is_opened_in_one_of_four_ways
        check (opened_by in ('key', 'environment', 'token', 'user')) not valid,
    add constraint a_session_of_a_user_names_them check ((user_id is null) = (opened_by <> 'user')) not valid;
