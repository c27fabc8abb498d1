-- Who did what.
--
-- sessions   who signed in with a browser: a random id, kept as its SHA-256, bound to the key it was opened with
-- audit      who changed what, looked at which content, and was refused; rows are added, and removed by age alone
-- api_keys   while a key is rotated, its secret of before still opens until previous_until

create table retoma.sessions (
    id               text primary key,
    secret_hash      bytea not null,
    opened_by        text not null,
    key_id           text,
    proof            bytea,
    link_hash        bytea,
    address          text,
    created_at       timestamptz not null default now(),
    seen_at          timestamptz not null default now(),
    expires_at       timestamptz not null,
    ended_at         timestamptz,
    constraint a_session_is_opened_in_one_of_three_ways check (opened_by in ('key', 'environment', 'token')),
    constraint a_session_of_a_key_names_it check ((key_id is null) = (opened_by <> 'key')),
    constraint a_link_opens_once unique (link_hash)
);

create index sessions_of_key on retoma.sessions (key_id) where ended_at is null;
create index sessions_by_age on retoma.sessions (expires_at);

create table retoma.audit (
    id               bigint generated always as identity primary key,
    at               timestamptz not null default now(),
    who              text not null,
    name             text,
    via              text not null,
    address          text,
    route            text not null,
    action           text not null,
    object_kind      text,
    object_id        text,
    before           jsonb,
    after            jsonb,
    correlation_id   text,
    outcome          text not null,
    times            integer not null default 1,
    constraint a_row_of_the_audit_came_one_of_two_ways check (via in ('http', 'cli')),
    constraint an_outcome_is_known check (outcome in ('begun', 'done', 'failed', 'looked', 'refused'))
);

create index audit_by_age on retoma.audit (at);
create index audit_by_who on retoma.audit (who, id);
create index audit_by_action on retoma.audit (action, id);
create index audit_by_object on retoma.audit (object_kind, object_id, id) where object_kind is not null;

-- What was written stays as it was. Pruning says that it prunes, and may take only what is older than a day.
create function retoma.audit_stays() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' and current_setting('retoma.prunes', true) = 'audit' and old.at < now() - interval '1 day'
    then
        return old;
    end if;
    raise exception using
        message = 'The audit is added to and never changed: ' || lower(tg_op) || ' is refused.',
        errcode = 'insufficient_privilege',
        hint = 'Rows go by RETOMA_AUDIT_DAYS alone: retoma prune.';
end
$$;

create trigger audit_rows_stay before update or delete on retoma.audit
    for each row execute function retoma.audit_stays();
create trigger audit_is_not_emptied before truncate on retoma.audit
    for each statement execute function retoma.audit_stays();

alter table retoma.api_keys
    add column previous_hash bytea,
    add column previous_until timestamptz,
    add column rotated_at timestamptz;
