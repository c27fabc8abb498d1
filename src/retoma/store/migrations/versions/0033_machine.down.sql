alter table retoma.workers
    drop column doing,
    drop column memory_megabytes,
    drop column drain_requested_at,
    drop column drain_requested_by;
drop table retoma.schedule_runs;
