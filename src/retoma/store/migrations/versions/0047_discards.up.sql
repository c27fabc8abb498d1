-- discards   failures that a person has settled as not to be retried. A row settles one failure: a job that was tried
--            again and fails once more has another failed_at, and is a dead letter again
create table retoma.discards (
    job_id           bigint primary key,
    failed_at        timestamptz not null,
    discarded_at     timestamptz not null default now(),
    discarded_by     text not null,
    reason           text
);

alter table retoma.operations
    drop constraint an_operation_has_a_kind,
    add constraint an_operation_has_a_kind
        check (kind in ('cancel', 'retry', 'restart', 'move', 'priority', 'discard', 'reinstate', 'replan')) not valid;
