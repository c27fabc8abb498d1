drop table retoma.operations;
alter table retoma.batches
    drop column operation_id,
    drop column pruned_at;
