-- Of jobs that have ended only: one entry for each job, not one for each change of it.
drop index concurrently if exists retoma.jobs_ended_by_kind;
create index concurrently jobs_ended_by_kind on retoma.jobs (queue, pipeline, id) where finished_at is not null;
