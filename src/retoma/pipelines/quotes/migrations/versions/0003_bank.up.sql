-- How a price of the bank is brought up to date: as the project says, unless the vehicle has a mode of its own.
alter table quotes.price_bank
    add column update_mode text,
    add constraint an_update_mode_has_a_name check (update_mode in ('MARKET', 'IPCA', 'MANUAL', 'SKIP')) not valid;

-- Every update of a price, or that a person declined one: what it was, what it became, how, by whom and why.
create table quotes.bank_updates (
    id              bigint generated always as identity primary key,
    vehicle_id      bigint not null references quotes.price_bank,
    mode            text not null,
    state           text not null,
    price_before    numeric(14, 2) not null,
    price_after     numeric(14, 2),
    reference_month text,
    evidence_blob   text,
    evidence_sha256 text,
    detail          json not null,
    quote_id        bigint references quotes.quote_requests,
    job_id          bigint,
    by              text not null,
    reason          text,
    created_at      timestamptz not null default now(),
    decided_by      text,
    decided_at      timestamptz,
    constraint an_update_has_a_mode check (mode in ('MARKET', 'IPCA', 'MANUAL')),
    constraint an_update_stands_somehow check (state in ('APPLIED', 'WAITING', 'REFUSED')),
    constraint what_is_applied_has_a_price check (state <> 'APPLIED' or price_after > 0),
    constraint what_is_refused_was_decided check (state <> 'REFUSED' or decided_by is not null),
    constraint a_decision_says_who_and_when check ((decided_by is null) = (decided_at is null))
);

-- One at a time waits for a person, and a job writes its update once.
create unique index bank_updates_waiting on quotes.bank_updates (vehicle_id) where state = 'WAITING';
create unique index bank_updates_of_job on quotes.bank_updates (job_id) where job_id is not null;
create index bank_updates_of_vehicle on quotes.bank_updates (vehicle_id, id);
create index bank_updates_of_quote on quotes.bank_updates (quote_id) where quote_id is not null;
