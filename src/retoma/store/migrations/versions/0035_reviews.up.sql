-- The review desk.
--
-- reviews     one row for each doubtful thing: a job in review, or what an extension says is in doubt. The row has the
--             lease of the person who looks at it, so that two people never get the same one
-- decisions   who decided what, when, over which proposal; rows are added, and go with their job. An undo is a row that
--             names the row it undoes

create table retoma.reviews (
    id               bigint generated always as identity primary key,
    source           text not null,
    item             text not null,
    job_id           bigint,
    fence            bigint,
    pipeline         text not null,
    batch_id         bigint,
    state            text not null default 'open',
    title            text,
    reason           text,
    proposal         json,
    label            text,
    version          text,
    confidence       real,
    margin           real,
    evidence         json,
    created_at       timestamptz not null default now(),
    settled_at       timestamptz,
    leased_by        text,
    leased_until     timestamptz,
    skipped_by       text[] not null default '{}',
    constraint a_thing_is_reviewed_once_at_a_time unique (source, item),
    constraint a_review_is_open_settled_or_gone check (state in ('open', 'settled', 'gone')),
    constraint only_an_open_review_is_unsettled check ((settled_at is null) = (state = 'open')),
    constraint a_lease_has_an_end check ((leased_by is null) = (leased_until is null))
);

create index reviews_open on retoma.reviews (margin, id) where state = 'open';
create index reviews_leased on retoma.reviews (leased_by) where leased_by is not null;
create index reviews_of_job on retoma.reviews (job_id) where job_id is not null;

create table retoma.decisions (
    id               bigint generated always as identity primary key,
    key              text not null,
    review_id        bigint not null,
    source           text not null,
    item             text not null,
    job_id           bigint,
    fence            bigint,
    pipeline         text not null,
    batch_id         bigint,
    who              text not null,
    name             text,
    at               timestamptz not null default now(),
    kind             text not null,
    proposed         json,
    decided          json,
    label            text,
    decided_label    text,
    version          text,
    confidence       real,
    margin           real,
    note             text,
    seconds          real,
    undoes           bigint,
    constraint a_decision_is_made_once unique (key),
    constraint a_decision_is_undone_once unique (undoes),
    constraint a_kind_of_decision_is_known check (kind in ('accept', 'correct', 'reject', 'retry', 'undo')),
    constraint only_an_undo_undoes check ((undoes is not null) = (kind = 'undo'))
);

create index decisions_of_review on retoma.decisions (review_id, id);
create index decisions_of_job on retoma.decisions (job_id) where job_id is not null;
create index decisions_by_who on retoma.decisions (who, id);
create index decisions_of_batch on retoma.decisions (batch_id, id) where batch_id is not null;

create function retoma.decisions_stay() returns trigger language plpgsql as $$
begin
    raise exception using
        message = 'Decisions are added and never changed: ' || lower(tg_op) || ' is refused.',
        errcode = 'insufficient_privilege',
        hint = 'Undo a decision instead; its rows go with the job they belong to.';
end
$$;

create trigger decisions_stay before update on retoma.decisions
    for each row execute function retoma.decisions_stay();

-- Jobs that wait for a person already.
insert into retoma.reviews (source, item, job_id, fence, pipeline, batch_id, title, reason, proposal)
select 'job', job.id::text, job.id, job.fence, job.pipeline, job.batch_id, job.key, job.reason, job.output
  from retoma.jobs as job
 where job.state = 'review';

-- What a person decided about a classification, and what had been found before that. Last, because it locks a table
-- that is in use.
alter table retoma.classifications
    add column decided_by text,
    add column decided_at timestamptz,
    add column proposed json;
