-- Who may come in over HTTP, and what was answered to requests that may be repeated.
--
-- api_keys   the secret is random and long, so its SHA-256 is enough; it is shown once and never kept
-- replies    answers to requests that carried an Idempotency-Key, written in the transaction of the work itself

create table retoma.api_keys (
    id               text primary key,
    name             text not null,
    secret_hash      bytea not null,
    scopes           text[] not null,
    pipelines        text[],
    created_at       timestamptz not null default now(),
    expires_at       timestamptz,
    revoked_at       timestamptz,
    last_used_at     timestamptz
);

create table retoma.replies (
    principal        text not null,
    route            text not null,
    key              text not null,
    request_hash     text not null,
    status           smallint not null,
    headers          json not null,
    body             text not null,
    created_at       timestamptz not null default now(),
    primary key (principal, route, key)
);

create index replies_by_age on retoma.replies (created_at);
