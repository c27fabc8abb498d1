-- Built beside the work, one after the other. What ended long ago is found by when it ended; the jobs of a batch in one
-- state are found in the order of their ids, from any of them on; the states that are rare are found at once.
drop index concurrently if exists retoma.jobs_ended_alone;
create index concurrently jobs_ended_alone on retoma.jobs (finished_at)
    where finished_at is not null and batch_id is null;

drop index concurrently if exists retoma.jobs_of_batch_in_state;
create index concurrently jobs_of_batch_in_state on retoma.jobs (batch_id, state, id) where batch_id is not null;
drop index concurrently if exists retoma.jobs_of_batch;

drop index concurrently if exists retoma.jobs_by_outcome;
create index concurrently jobs_by_outcome on retoma.jobs (state, id)
    where state in ('failed', 'review', 'cancelled', 'skipped');
drop index concurrently if exists retoma.jobs_failed;

drop index concurrently if exists retoma.batches_ended;
create index concurrently batches_ended on retoma.batches (finished_at, id) where finished_at is not null;

drop index concurrently if exists retoma.batches_pruned;
create index concurrently batches_pruned on retoma.batches (pruned_at, id) where pruned_at is not null;

drop index concurrently if exists retoma.calls_by_age;
create index concurrently calls_by_age on retoma.calls (asked_at, id);
