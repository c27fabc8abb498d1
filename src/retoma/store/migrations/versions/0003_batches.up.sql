-- Batches: many jobs followed as one.
--
-- batch_moves  the state machine: which state may follow which; every other change of state is refused
-- batches      one row per batch; what happens to its jobs is told here under the row's lock, in the statement that
--              does it, so the last job to end completes its batch and no reader sees one without the other
-- events       the story of a batch, numbered without gaps in the order in which it happened
--
-- A batch has a lane of its own in its queue: batches take turns, and one that must not run is closed by one row.

create table retoma.batch_moves (
    before           text not null,
    after            text not null,
    primary key (before, after)
);

insert into retoma.batch_moves (before, after) values
    ('new', 'queued'),
    ('queued', 'running'), ('queued', 'paused'), ('queued', 'completed'), ('queued', 'cancelled'),
    ('running', 'completed'), ('running', 'stalled'), ('running', 'paused'), ('running', 'failed'),
    ('running', 'cancelled'),
    ('stalled', 'running'), ('stalled', 'completed'), ('stalled', 'paused'), ('stalled', 'failed'),
    ('stalled', 'cancelled'),
    ('paused', 'running'), ('paused', 'queued'), ('paused', 'completed'), ('paused', 'cancelled'),
    -- Only because a person asks: to resume past a limit that was raised, to retry, to restart.
    ('completed', 'running'), ('failed', 'running'), ('failed', 'completed'), ('cancelled', 'running');

create table retoma.batches (
    id               bigint generated always as identity primary key,
    name             text not null,
    pipeline         text not null,
    queue            text not null,
    lane_id          bigint not null,
    route            text,
    labels           jsonb not null default '{}',
    configuration    json not null default '{}',
    correlation_id   text,
    state            text not null default 'queued',
    was              text not null default 'new',
    reason           text,
    cause            json,
    total            integer,
    unfinished       integer not null default 0,
    failures         integer not null default 0,
    resumes          integer not null default 0,
    max_resumes      integer not null,
    max_failure_rate real,
    forgiven         integer not null default 0,
    forgiven_of      integer not null default 0,
    budget           numeric,
    spent            numeric not null default 0,
    busy_seconds     double precision not null default 0,
    stall_seconds    real not null,
    epoch            integer not null default 0,
    event_seq        bigint not null default 0,
    created_at       timestamptz not null default now(),
    sealed_at        timestamptz,
    expires_at       timestamptz,
    started_at       timestamptz,
    stalled_at       timestamptz,
    finished_at      timestamptz,
    last_progress_at timestamptz,
    last_key         text,
    pace_minute      double precision not null default 0,
    pace_five        double precision not null default 0,
    paced_at         timestamptz,
    constraint the_state_may_follow_the_one_before foreign key (was, state) references retoma.batch_moves,
    constraint a_sealed_batch_has_jobs check ((sealed_at is null) = (total is null) and total >= 1),
    constraint what_is_left_is_within_the_total check (unfinished between 0 and coalesce(total, 0)),
    constraint failures_are_within_the_total check (failures between 0 and coalesce(total, 0)),
    constraint nothing_is_left_of_a_completed_batch check (state <> 'completed' or unfinished = 0),
    constraint only_an_ended_batch_has_finished check (
        (finished_at is not null) = (state in ('completed', 'failed', 'cancelled'))),
    constraint only_a_stalled_batch_has_stalled check ((stalled_at is not null) = (state = 'stalled')),
    constraint resumes_are_within_their_limit check (resumes >= 0 and max_resumes >= 0),
    constraint a_rate_is_between_none_and_all check (max_failure_rate between 0 and 1)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

create index batches_at_work on retoma.batches (last_progress_at) where state in ('running', 'stalled');
create index batches_open on retoma.batches (expires_at) where sealed_at is null;
create index batches_by_label on retoma.batches using gin (labels jsonb_path_ops);

create table retoma.events (
    batch_id         bigint not null,
    seq              bigint not null,
    kind             text not null,
    at               timestamptz not null default clock_timestamp(),
    data             json not null,
    primary key (batch_id, seq)
);

-- What a heartbeat asks is now answered by the jobs a worker holds, whatever the reason to let go of them.
drop index retoma.jobs_cancelling;
