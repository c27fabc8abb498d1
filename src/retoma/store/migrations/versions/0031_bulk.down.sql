-- Operations by a filter stay as rows that no earlier program carries out.
drop table retoma.views;
alter table retoma.operations
    drop constraint a_filter_ends_at_a_job,
    drop constraint an_operation_concerns_a_batch_or_a_filter,
    drop constraint an_operation_has_a_kind,
    add constraint an_operation_has_a_kind check (kind in ('cancel', 'retry', 'restart')) not valid,
    drop column skipped,
    drop column exact,
    drop column upto,
    drop column filter;
