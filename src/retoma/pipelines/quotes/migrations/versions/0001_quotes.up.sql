-- A quote belongs to a job of the engine, which holds claim, lease and fence. Its row says how it stands in the words of
-- its users; the worker writes it in the transactions of its steps, so that a stale one changes nothing.

create table quotes.projects (
    id          bigint generated always as identity primary key,
    name        text not null,
    created_at  timestamptz not null default now(),
    archived_at timestamptz,
    constraint a_project_has_a_name check (name <> '' and length(name) <= 200)
);

create unique index projects_by_name on quotes.projects (name) where archived_at is null;

-- A change makes a new version, and a quote points to the one that it was made with.
create table quotes.configurations (
    id          bigint generated always as identity primary key,
    project_id  bigint not null references quotes.projects,
    version     integer not null,
    terms       json not null,
    created_at  timestamptz not null default now(),
    created_by  text not null,
    unique (project_id, version)
);

create table quotes.batch_quote_jobs (
    id                bigint primary key,
    project_id        bigint not null references quotes.projects,
    config_version_id bigint not null references quotes.configurations,
    input_type        text not null,
    filename          text,
    sha256            text,
    columns           json,
    created_by        text not null,
    created_at        timestamptz not null default now()
);

comment on column quotes.batch_quote_jobs.id is 'the batch of the engine';

create table quotes.quote_requests (
    id                            bigint generated always as identity primary key,
    job_id                        bigint not null,
    project_id                    bigint not null references quotes.projects,
    config_version_id             bigint not null references quotes.configurations,
    status                        text not null default 'PENDING',
    input_type                    text not null default 'TEXT',
    input_text                    text not null,
    input_blob                    text,
    input_sha256                  text,
    input_kind                    text,
    codigo_item                   text,
    local                         text,
    pesquisador                   text,
    unit                          text,
    quantity                      numeric,
    claude_payload_json           json,
    search_query_final            text,
    google_shopping_response_json json,
    shopping_response_saved_at    timestamptz,
    valor_medio                   numeric(14, 2),
    valor_minimo                  numeric(14, 2),
    valor_maximo                  numeric(14, 2),
    variacao_percentual           numeric(12, 2),
    error_message                 text,
    current_step                  text,
    progress_percentage           smallint not null default 0,
    step_details                  json,
    attempt_number                integer not null default 1,
    original_quote_id             bigint references quotes.quote_requests,
    requote_number                integer not null default 0,
    batch_job_id                  bigint references quotes.batch_quote_jobs,
    batch_index                   integer,
    processing_checkpoint         varchar(50),
    last_heartbeat                timestamptz,
    worker_id                     varchar(100),
    resume_data                   json,
    started_at                    timestamptz,
    completed_at                  timestamptz,
    created_at                    timestamptz not null default now(),
    created_by                    text not null,
    constraint a_status_has_a_name check (
        status in ('PENDING', 'PROCESSING', 'DONE', 'AWAITING_REVIEW', 'ERROR', 'CANCELLED')),
    constraint progress_is_a_percentage check (progress_percentage between 0 and 100),
    constraint a_quote_in_processing_shows_life check (status <> 'PROCESSING' or last_heartbeat is not null),
    constraint only_a_quote_in_processing_is_held check (worker_id is null or status = 'PROCESSING'),
    constraint an_ended_quote_has_its_end check (
        (completed_at is not null) = (status in ('DONE', 'AWAITING_REVIEW', 'ERROR', 'CANCELLED')))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

comment on column quotes.quote_requests.attempt_number is 'how often it was begun: one more with each recovery';
comment on column quotes.quote_requests.requote_number is 'how many quotes of the same item came before it';

-- Those of the seed: what is stuck, and what a worker holds.
create index ix_quote_requests_heartbeat_status on quotes.quote_requests (status, last_heartbeat);
create index ix_quote_requests_worker_id on quotes.quote_requests (worker_id);
create unique index quote_requests_of_job on quotes.quote_requests (job_id);
create unique index quote_requests_of_batch on quotes.quote_requests (batch_job_id, batch_index)
    where batch_job_id is not null;
create unique index quote_requests_by_original on quotes.quote_requests (original_quote_id)
    where original_quote_id is not null;
create index quote_requests_of_project on quotes.quote_requests (project_id, id);
create index quote_requests_ended on quotes.quote_requests (completed_at) where status = 'DONE';

-- What each row of a list became: a quote, or a problem that is told.
create table quotes.batch_items (
    batch_id    bigint not null references quotes.batch_quote_jobs,
    line        integer not null,
    quote_id    bigint references quotes.quote_requests,
    problem     text,
    message     text,
    said        text,
    primary key (batch_id, line),
    constraint a_row_is_a_quote_or_a_problem check ((quote_id is null) = (problem is not null))
);

-- Every product that was tested, once: those that count, and those that do not with their reason.
create table quotes.quote_sources (
    id                 bigint generated always as identity primary key,
    quote_id           bigint not null references quotes.quote_requests,
    key                text not null,
    position           integer not null,
    kind               text not null,
    provider           text not null,
    title              text not null,
    seller             text,
    url                text,
    domain             text,
    page_title         text,
    listed_price       numeric(14, 2),
    price_value        numeric(14, 2),
    currency           text not null default 'BRL',
    dated              timestamptz,
    extraction_method  text,
    evidence_blob      text,
    evidence_sha256    text,
    evidence_kind      text,
    screenshot_file_id text,
    screenshot_sha256  text,
    without_screenshot text,
    captured_at        timestamptz,
    is_valid           boolean not null,
    is_outlier         boolean not null default false,
    is_accepted        boolean not null default false,
    failure_reason     text,
    failure_message    text,
    detail             json,
    added_by           text,
    tested_at          timestamptz not null default now(),
    unique (quote_id, key),
    constraint what_counts_has_a_price check (not is_valid or price_value is not null),
    constraint what_does_not_count_has_a_reason check (is_valid or failure_reason is not null),
    constraint only_what_counts_is_accepted check (is_valid or not is_accepted)
);

-- Prices of vehicles that were paid for or looked up before.
create table quotes.price_bank (
    id              bigint generated always as identity primary key,
    codigo_fipe     text not null,
    ano             integer not null,
    marca           text not null,
    modelo          text not null,
    combustivel     text,
    vehicle_type    text not null,
    words           text[] not null,
    price           numeric(14, 2) not null,
    reference_month text,
    evidence_blob   text,
    evidence_sha256 text,
    quote_id        bigint references quotes.quote_requests,
    updated_at      timestamptz not null default now(),
    unique (codigo_fipe, ano),
    constraint a_price_is_more_than_nothing check (price > 0)
);

create index price_bank_by_words on quotes.price_bank using gin (words);

-- What people decided, and why.
create table quotes.reviews (
    id         bigint generated always as identity primary key,
    quote_id   bigint not null references quotes.quote_requests,
    source_id  bigint references quotes.quote_sources,
    action     text not null,
    reason     text not null,
    by         text not null,
    before     text not null,
    after      text not null,
    created_at timestamptz not null default now(),
    constraint an_action_has_a_name check (action in ('accept', 'refuse', 'add_source', 'drop_source', 'take_source')),
    constraint a_decision_has_a_reason check (length(btrim(reason)) >= 3)
);

create index reviews_of_quote on quotes.reviews (quote_id, id);

create table quotes.closed_reports (
    id         bigint generated always as identity primary key,
    quote_id   bigint references quotes.quote_requests,
    batch_id   bigint references quotes.batch_quote_jobs,
    content    json not null,
    sha256     text not null,
    pdf_blob   text,
    xlsx_blob  text,
    closed_by  text not null,
    closed_at  timestamptz not null default now(),
    constraint a_report_is_of_one_thing check ((quote_id is null) <> (batch_id is null))
);

create unique index closed_reports_of_quote on quotes.closed_reports (quote_id) where quote_id is not null;
create unique index closed_reports_of_batch on quotes.closed_reports (batch_id) where batch_id is not null;

create function quotes.a_closed_report_stays() returns trigger language plpgsql as $$
begin
    raise exception 'A closed report does not change.' using errcode = 'integrity_constraint_violation';
end $$;

create trigger closed_reports_stay before update or delete on quotes.closed_reports
    for each row execute function quotes.a_closed_report_stays();
