alter table retoma.operations
    drop constraint an_operation_has_a_kind,
    add constraint an_operation_has_a_kind check (kind in ('cancel', 'retry', 'restart', 'move', 'priority')) not valid;
drop table retoma.discards;
