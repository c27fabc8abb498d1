drop index concurrently if exists retoma.jobs_failed;
create index concurrently jobs_failed on retoma.jobs (id) where state = 'failed';

drop index concurrently if exists retoma.jobs_of_batch;
create index concurrently jobs_of_batch on retoma.jobs (batch_id, state) where batch_id is not null;

drop index concurrently if exists retoma.jobs_ended_alone;
drop index concurrently if exists retoma.jobs_of_batch_in_state;
drop index concurrently if exists retoma.jobs_by_outcome;
drop index concurrently if exists retoma.batches_ended;
drop index concurrently if exists retoma.batches_pruned;
drop index concurrently if exists retoma.calls_by_age;
