-- Reports of batches that workers write: which part is done, and where the files are when all are. While one is being
-- closed nobody decides about the quotes of its batch.
create table quotes.report_jobs (
    id         bigint generated always as identity primary key,
    batch_id   bigint not null references quotes.batch_quote_jobs,
    job_id     bigint not null unique,
    closing    boolean not null,
    asked_by   text not null,
    asked_at   timestamptz not null default now(),
    parts      integer,
    parts_done integer not null default 0,
    ready_at   timestamptz,
    report_id  bigint references quotes.closed_reports,
    pdf_blob   text,
    pdf_bytes  bigint,
    xlsx_blob  text,
    xlsx_bytes bigint,
    sha256     text,
    constraint parts_are_done_one_by_one check (parts is null or parts_done between 0 and parts),
    constraint what_is_ready_has_its_files check ((ready_at is not null) = (pdf_blob is not null and xlsx_blob is not null)),
    constraint only_what_was_closing_is_closed check (report_id is null or closing)
);

create index report_jobs_of_batch on quotes.report_jobs (batch_id, id);
