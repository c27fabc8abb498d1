drop index concurrently if exists retoma.jobs_failed_at;
drop index concurrently if exists retoma.batches_under_way;
