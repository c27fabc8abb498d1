-- What the documents of a batch say of each other.
--
-- document_vectors  where each document lies, saved with its first result: 16-bit numbers, one after the other
-- findings          one row for each time that a batch was judged as a whole
-- changes           each result that this makes another: what it was, what it is, and why. All of them are written with
--                   their finding, and applied in pieces

create table classification.document_vectors (
    result_id    bigint primary key,
    model        text not null,
    vector       bytea not null
);

create table classification.findings (
    id           bigint generated always as identity primary key,
    batch_id     bigint not null,
    job_id       bigint not null,
    outcome      text not null,
    documents    integer not null,
    changed      integer not null,
    others       integer not null,
    rounds       integer not null,
    groups       json not null,
    unused       json not null,
    found_at     timestamptz not null default now(),
    constraint an_outcome_has_a_name check (outcome in ('refined', 'too_few', 'no_spread', 'contradicted', 'off',
                                                           'no_vectors'))
);

create table classification.changes (
    finding_id   bigint not null references classification.findings on delete cascade,
    result_id    bigint not null,
    before       json not null,
    after        json not null,
    why          json not null,
    applied_at   timestamptz,
    primary key (result_id, finding_id)
);

create index findings_of_batch on classification.findings (batch_id, id);
create index changes_to_apply on classification.changes (finding_id, result_id) where applied_at is null;

-- Last, because these lock tables that are in use.
alter table classification.document_vectors add constraint document_vectors_result_id_fkey
    foreign key (result_id) references retoma.classifications on delete cascade;
alter table classification.changes add constraint changes_result_id_fkey
    foreign key (result_id) references retoma.classifications on delete cascade;
alter table classification.findings add constraint findings_batch_id_fkey
    foreign key (batch_id) references retoma.executions on delete cascade;
