-- What the overview counts: the batches that have not ended, and the jobs that failed lately.
drop index concurrently if exists retoma.batches_under_way;
create index concurrently batches_under_way on retoma.batches (state, id) where finished_at is null;
drop index concurrently if exists retoma.jobs_failed_at;
create index concurrently jobs_failed_at on retoma.jobs (finished_at) where state = 'failed';
