drop index concurrently if exists retoma.jobs_suspected;
create index concurrently jobs_suspected on retoma.jobs (queue, lane_id) where state = 'queued' and crashes >= 2;
drop index concurrently if exists retoma.jobs_to_run_alone;
