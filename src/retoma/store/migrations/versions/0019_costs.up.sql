-- tier_prices  what a model costs in a service tier other than the standard one, which is in prices
-- spending     what was paid by calls that were pruned, by day; written in the statement that deletes them
--
-- A price that is null is that of the kind which this one is part of.
create table retoma.tier_prices (
    provider         text not null,
    model            text not null,
    tier             text not null,
    since            date not null,
    input            numeric not null default 0,
    cached           numeric not null default 0,
    cache_write      numeric,
    cache_write_1h   numeric,
    output           numeric not null default 0,
    reasoning        numeric,
    audio_input      numeric,
    audio_output     numeric,
    unit             numeric not null default 0,
    source           text not null,
    primary key (provider, model, tier, since),
    constraint the_standard_tier_is_in_prices check (tier <> '')
);

create table retoma.spending (
    day              date not null,
    tenant           text not null,
    provider         text not null,
    model            text not null,
    pipeline         text not null,
    outcome          text not null,
    calls            bigint not null,
    reused           bigint not null,
    unpriced         bigint not null,
    cost             numeric not null,
    reserved         numeric not null,
    input_tokens     bigint not null,
    output_tokens    bigint not null,
    cached_tokens    bigint not null,
    cache_write_tokens bigint not null,
    reasoning_tokens bigint not null,
    units            bigint not null,
    primary key (day, tenant, provider, model, pipeline, outcome),
    constraint an_outcome_has_a_name check (outcome in ('useful', 'again', 'lost', 'doubtful'))
);

-- An answer may come whose cost nobody knows; then cost_basis says why. What was kept in a cache for an hour is part of
-- what was written to it, what was reasoned is part of the output, and sound is part of both sides.
alter table retoma.calls
    add column pipeline text,
    add column tier text not null default '',
    add column cost_basis text,
    add column cache_write_tokens integer not null default 0,
    add column cache_write_1h_tokens integer not null default 0,
    add column reasoning_tokens integer not null default 0,
    add column audio_input_tokens integer not null default 0,
    add column audio_output_tokens integer not null default 0,
    drop constraint an_answered_call_has_its_answer,
    add constraint an_answered_call_has_its_answer check (
        (state = 'answered') = (answer is not null and answered_at is not null)) not valid,
    add constraint an_unknown_cost_says_why check (
        cost is not null or state <> 'answered' or cost_basis in ('unpriced', 'unreported')) not valid;
