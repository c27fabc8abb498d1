create index jobs_cancelling on retoma.jobs (worker_id)
    where state = 'running' and cancel_requested_at is not null;
drop table retoma.events;
drop table retoma.batches;
drop table retoma.batch_moves;
