-- Of jobs that have ended only: one entry for each job, not one for each change of it.
drop index concurrently if exists retoma.jobs_ended_lately;
create index concurrently jobs_ended_lately on retoma.jobs (queue, finished_at) where finished_at is not null;
