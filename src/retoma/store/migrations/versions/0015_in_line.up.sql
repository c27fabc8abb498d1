-- What waits, in the order of the claim. The pipeline comes before the priority: what a worker does not know is passed
-- over in one step, however much of it there is; so is what is not due.
drop index concurrently if exists retoma.jobs_in_line;
create index concurrently jobs_in_line on retoma.jobs (queue, lane_id, pipeline, priority, run_at, id)
    where state = 'queued';
drop index concurrently if exists retoma.jobs_ready;

-- Those that must run alone: nearly always none.
drop index concurrently if exists retoma.jobs_suspected;
create index concurrently jobs_suspected on retoma.jobs (queue, lane_id) where state = 'queued' and crashes >= 2;

-- Whether a lane may go.
drop index concurrently if exists retoma.jobs_of_lane;
create index concurrently jobs_of_lane on retoma.jobs (lane_id) where lane_id > 0 and batch_id is null;

-- The lanes that a claim looks at, those that are due, and those that rest.
drop index concurrently if exists retoma.lanes_awake;
create index concurrently lanes_awake on retoma.lanes (queue, id) where awake and closed_at is null;
drop index concurrently if exists retoma.lanes_due;
create index concurrently lanes_due on retoma.lanes (queue, wake_at) where not awake and closed_at is null;
drop index concurrently if exists retoma.lanes_resting;
create index concurrently lanes_resting on retoma.lanes (id) where not awake and closed_at is null;

drop index concurrently if exists retoma.slots_free;
create index concurrently slots_free on retoma.slots (lane_id, place) where job_id is null;
