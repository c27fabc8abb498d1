-- schedule_runs   which jobs a schedule queued, the newest twenty of each
-- workers         what each executor said in its last heartbeat: the step of each job, its memory; and since when its
--                 worker is asked to take no more jobs and to end

create table retoma.schedule_runs (
    schedule         text not null,
    job_id           bigint not null,
    at               timestamptz not null default now(),
    by_hand          boolean not null default false,
    primary key (schedule, job_id)
);

alter table retoma.workers
    add column doing json,
    add column memory_megabytes real,
    add column drain_requested_at timestamptz,
    add column drain_requested_by text;
