-- Calls: every request to a provider, written down before it is made and when it is answered.
--
-- calls    the intent first, then the answer as it came; equal requests are answered from here
-- prices   what a million tokens, or one unit, costs from a day on; rows are added, never changed
-- limits   what a provider allows, and how much of it is left; one row is shared by all workers
-- permits  how many requests each executor has under way, for limits on how many there may be at once
--
-- A call belongs to a tenant, not to a job: an answer that comes after its job was given to another worker is kept
-- all the same, for it is paid for.

create table retoma.calls (
    id               bigint generated always as identity primary key,
    tenant           text not null default '',
    key              text not null,
    provider         text not null,
    model            text not null,
    job_id           bigint,
    batch_id         bigint,
    step             text,
    fence            bigint,
    worker_id        bigint,
    kind             text not null default 'first',
    state            text not null default 'open',
    request          json not null,
    answer           text,
    text             text,
    finish           text,
    request_id       text,
    status           smallint,
    error            text,
    reserved         numeric not null default 0,
    cost             numeric,
    input_tokens     integer not null default 0,
    output_tokens    integer not null default 0,
    cached_tokens    integer not null default 0,
    units            integer not null default 0,
    reused           integer not null default 0,
    asked_at         timestamptz not null default clock_timestamp(),
    answered_at      timestamptz,
    awaited_until    timestamptz,
    constraint a_call_has_a_kind check (kind in ('first', 'again', 'repair')),
    constraint a_call_has_a_state check (state in ('open', 'answered', 'failed', 'doubtful')),
    constraint an_answered_call_has_its_answer check (
        (state = 'answered') = (answer is not null and cost is not null and answered_at is not null))
);

create unique index one_asks_and_others_wait on retoma.calls (tenant, key)
    where state = 'open' and awaited_until is not null;
create index calls_by_key on retoma.calls (tenant, key) where state = 'answered';
create index calls_of_job on retoma.calls (job_id);
create index calls_of_batch on retoma.calls (batch_id, id) where batch_id is not null;
create index calls_in_doubt on retoma.calls (id) where state in ('open', 'doubtful');

create table retoma.prices (
    provider         text not null,
    model            text not null,
    since            date not null,
    input            numeric not null default 0,
    cached           numeric not null default 0,
    output           numeric not null default 0,
    unit             numeric not null default 0,
    source           text not null,
    primary key (provider, model, since)
);

create table retoma.limits (
    name             text primary key,
    requests         integer,
    tokens           integer,
    at_once          integer,
    requests_left    double precision not null default 0,
    tokens_left      double precision not null default 0,
    refilled_at      timestamptz not null default now(),
    cooled_until     timestamptz,
    reason           text,
    failures         integer not null default 0,
    opened_until     timestamptz,
    probing_until    timestamptz,
    constraint a_limit_allows_something check (requests >= 1 and tokens >= 1 and at_once >= 1)
) with (fillfactor = 50);

create table retoma.permits (
    name             text not null,
    worker_id        bigint not null,
    taken            integer not null,
    primary key (name, worker_id)
);

-- Last, because it locks a table that is in use.
alter table retoma.batches add column reserved numeric not null default 0;
