drop index concurrently if exists retoma.jobs_ready;
create index concurrently jobs_ready on retoma.jobs (queue, lane_id, priority, run_at, id) where state = 'queued';
drop index concurrently if exists retoma.jobs_in_line;
drop index concurrently if exists retoma.jobs_suspected;
drop index concurrently if exists retoma.jobs_of_lane;
drop index concurrently if exists retoma.lanes_awake;
drop index concurrently if exists retoma.lanes_due;
drop index concurrently if exists retoma.lanes_resting;
drop index concurrently if exists retoma.slots_free;
