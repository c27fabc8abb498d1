-- Those that must run alone: nearly always none. A program that asks for crashes >= 2 only finds them here, too.
drop index concurrently if exists retoma.jobs_to_run_alone;
create index concurrently jobs_to_run_alone on retoma.jobs (queue, lane_id)
    where state = 'queued' and (alone or crashes >= 2);
drop index concurrently if exists retoma.jobs_suspected;
