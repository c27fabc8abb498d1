-- The foundation: where jobs wait, who holds them, what they have done so far.
--
-- queues       where jobs wait, and whether they may be taken
-- lanes        lines inside a queue: they take turns, and some let only a few jobs run at a time
-- slots        the places of a lane that lets only a few run
-- jobs         one pipeline over one input; small, because each change writes the row again
-- attempts     how each claim ended; appended, never changed
-- checkpoints  what each step produced; appended, set aside, never overwritten
-- signals      what the outside world told a job
-- workers      one row per executor incarnation; the lease of all its jobs is its own
-- schedules    jobs that come back by the clock
--
-- Times are the database's own. Attempts and checkpoints have no foreign key to jobs: the check would cost
-- more than the row, and prune removes them together.

create table retoma.queues (
    name             text primary key,
    paused_at        timestamptz,
    paused_reason    text
);

create table retoma.lanes (
    id               bigint generated always as identity primary key,
    queue            text not null,
    name             text not null,
    at_once          integer,
    closed_at        timestamptz,
    created_at       timestamptz not null default now(),
    constraint one_lane_per_name unique (queue, name),
    constraint a_limit_lets_at_least_one_run check (at_once >= 1)
);

create table retoma.slots (
    lane_id          bigint not null references retoma.lanes on delete cascade,
    place            integer not null,
    job_id           bigint,
    primary key (lane_id, place)
);

create index slots_taken on retoma.slots (job_id) where job_id is not null;

create table retoma.jobs (
    id               bigint generated always as identity primary key,
    batch_id         bigint,
    queue            text not null,
    lane_id          bigint not null default 0,
    pipeline         text not null,
    key              text,
    priority         smallint not null default 0,
    state            text not null default 'queued',
    reason           text,
    run_at           timestamptz not null default now(),
    expires_at       timestamptz,
    attempt          integer not null default 0,
    max_attempts     integer not null,
    crashes          smallint not null default 0,
    fence            bigint not null default 0,
    signals          integer not null default 0,
    worker_id        bigint,
    claim_token      uuid,
    cancel_requested_at timestamptz,
    timeout_seconds  real not null,
    created_at       timestamptz not null default now(),
    claimed_at       timestamptz,
    finished_at      timestamptz,
    correlation_id   text,
    traceparent      text,
    input            json not null,
    output           json,
    error            text,
    constraint a_state_has_a_name check (
        state in ('queued', 'running', 'completed', 'skipped', 'failed', 'review', 'cancelled')),
    constraint attempts_are_within_their_limit check (
        attempt between 0 and max_attempts and (state <> 'queued' or attempt < max_attempts)),
    constraint only_a_running_job_is_held check ((worker_id is not null) = (state = 'running')),
    constraint only_an_ended_job_has_finished check (
        (finished_at is not null) = (state in ('completed', 'skipped', 'failed', 'review', 'cancelled')))
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.05);

-- What is ready, in the order of the claim: lanes take turns, then priority, then age.
create index jobs_ready on retoma.jobs (queue, lane_id, priority, run_at, id) where state = 'queued';
create index jobs_held on retoma.jobs (worker_id) where state = 'running';
create index jobs_cancelling on retoma.jobs (worker_id)
    where state = 'running' and cancel_requested_at is not null;
create index jobs_expiring on retoma.jobs (expires_at) where state = 'queued' and expires_at is not null;
create index jobs_failed on retoma.jobs (id) where state = 'failed';
create index jobs_of_batch on retoma.jobs (batch_id, state) where batch_id is not null;
create unique index jobs_by_key on retoma.jobs (pipeline, coalesce(batch_id, 0), key) where key is not null;

create table retoma.attempts (
    job_id           bigint not null,
    fence            bigint not null,
    attempt          integer not null,
    worker_id        bigint not null,
    ending           text not null,
    reason           text,
    error            text,
    step             text,
    signal           smallint,
    peak_megabytes   real,
    claimed_at       timestamptz not null,
    ended_at         timestamptz not null default now(),
    seconds          real,
    primary key (job_id, fence)
);

create table retoma.checkpoints (
    job_id           bigint not null,
    step             text not null,
    generation       smallint not null default 1,
    value            json not null,
    checksum         text not null,
    fingerprint      text not null,
    input_hash       text,
    fence            bigint not null,
    seconds          real,
    saved_at         timestamptz not null default now(),
    set_aside_at     timestamptz,
    reason           text,
    primary key (job_id, step, generation)
);

create table retoma.signals (
    job_id           bigint not null,
    name             text not null,
    value            json not null,
    sent_at          timestamptz not null default now(),
    primary key (job_id, name)
);

create table retoma.workers (
    id               bigint generated always as identity primary key,
    label            text not null,
    host             text not null,
    pid              integer not null,
    version          text not null,
    queues           text[] not null,
    pipelines        text[] not null,
    at_once          integer not null,
    lease_seconds    real not null,
    started_at       timestamptz not null default now(),
    seen_at          timestamptz not null default now(),
    lease_expires_at timestamptz not null,
    stopping_at      timestamptz,
    stopped_at       timestamptz,
    reason           text,
    claimed          bigint not null default 0,
    completed        bigint not null default 0,
    failed           bigint not null default 0,
    retried          bigint not null default 0,
    recovered        bigint not null default 0,
    busy_seconds     double precision not null default 0
) with (fillfactor = 50);

create index workers_alive on retoma.workers (id) where stopped_at is null;

create table retoma.schedules (
    name             text primary key,
    pipeline         text not null,
    queue            text not null,
    cron             text not null,
    zone             text not null,
    input            json not null,
    priority         smallint not null default 0,
    max_attempts     integer not null,
    timeout_seconds  real not null,
    next_run_at      timestamptz not null,
    last_run_at      timestamptz,
    paused_at        timestamptz,
    created_at       timestamptz not null default now()
);

-- The queue in the words of the worker scale-out document, for the programs that were written to it.
create view retoma.queue_jobs as
select job.id,
       job.pipeline as "jobType",
       case job.state
           when 'queued' then 'pending'
           when 'running' then 'processing'
           when 'failed' then 'failed'
           when 'cancelled' then 'failed'
           else 'completed'
       end as status,
       job.input as payload,
       job.priority,
       job.attempt as attempts,
       job.max_attempts as "maxAttempts",
       worker.label as "lockedBy",
       case when job.state = 'running' then job.claimed_at end as "lockedAt",
       worker.lease_expires_at as "lockExpiresAt",
       worker.seen_at as "lastHeartbeatAt",
       job.claimed_at as "processingStartedAt",
       job.finished_at as "processedAt",
       job.error as "lastError",
       job.run_at as "runAt",
       job.created_at as "createdAt"
  from retoma.jobs as job
  left join retoma.workers as worker on worker.id = job.worker_id;
