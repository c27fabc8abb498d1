-- discards   failures that a person has settled as not to be retried. A row settles one failure: a job that was tried
--            again and fails once more has another failed_at, and is a dead letter again
create table retoma.discards (
    job_id           bigint primary key,
    failed_at        timestamptz not null,
    discarded_at     timestamptz not null default now(),
    discarded_by     text not null,
    reason           text
);

-- queues.paused_until   when a paused queue goes on by itself; null while nobody has said
alter table retoma.queues
    add column paused_until timestamptz,
    add constraint only_a_paused_queue_has_an_end check (paused_until is null or paused_at is not null) not valid;

alter table retoma.operations
    drop constraint an_operation_has_a_kind,
    add constraint an_operation_has_a_kind
        check (kind in ('cancel', 'retry', 'restart', 'move', 'priority', 'discard', 'reinstate', 'replan')) not valid;
