-- A queue that is paused until a time stays paused after this, until somebody resumes it.
alter table retoma.operations
    drop constraint an_operation_has_a_kind,
    add constraint an_operation_has_a_kind check (kind in ('cancel', 'retry', 'restart', 'move', 'priority')) not valid;
alter table retoma.queues drop column paused_until;
drop table retoma.discards;
