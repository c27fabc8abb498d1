-- What 'retoma chaos' looks at: rows that are only ever added, in a database that is thrown away afterwards. Not among the
-- queries, because no other database has these tables.

-- name: tables
-- Each change of a job's row and each checkpoint, with the fence that the job had then: the two fences of a row differ
-- when a worker was let through that had lost the job.
create schema chaos;
create table chaos.effects (job bigint not null, fence bigint not null);
create table chaos.changes (
    place    bigint generated always as identity,
    job      bigint not null,
    before   text not null,
    state    text not null,
    fence    bigint not null
);
create table chaos.saves (job bigint not null, step text not null, fence bigint not null, fence_of_job bigint);

create function chaos.note_change() returns trigger language plpgsql as $$
begin
    insert into chaos.changes (job, before, state, fence) values (new.id, old.state, new.state, new.fence);
    return null;
end $$;
create trigger chaos_change after update on retoma.jobs for each row execute function chaos.note_change();

create function chaos.note_save() returns trigger language plpgsql as $$
begin
    insert into chaos.saves
    select new.job_id, new.step, new.fence, job.fence from retoma.jobs as job where job.id = new.job_id;
    return null;
end $$;
create trigger chaos_save after insert on retoma.checkpoints for each row execute function chaos.note_save();

-- name: effect
insert into chaos.effects (job, fence) values (%(job)s::bigint, %(fence)s::bigint);

-- name: states
-- The jobs of the run by state and reason.
select job.state, coalesce(job.reason, '') as reason, count(*) as jobs
  from retoma.jobs as job
 where job.id = any (%(ids)s::bigint[])
 group by job.state, job.reason;

-- name: given_up
-- Jobs that were killed too often from outside; a person would look at them, and try them again.
select job.id
  from retoma.jobs as job
 where job.id = any (%(ids)s::bigint[])
   and job.state = 'failed'
   and job.reason in ('quarantine', 'lost');

-- name: doubled_effects
-- Rows that handlers wrote more than once for a job.
select count(*) as jobs
  from (select effect.job from chaos.effects as effect group by effect.job having count(*) > 1) as doubled;

-- name: without_effect
-- Jobs that are completed and whose row is missing.
select count(*) as jobs
  from retoma.jobs as job
 where job.id = any (%(ids)s::bigint[])
   and job.state = 'completed'
   and not exists (select from chaos.effects as effect where effect.job = job.id);

-- name: doubled_saves
-- Steps that were saved more than once.
select count(*) as steps
  from (select save.job, save.step
          from chaos.saves as save
         where save.job = any (%(ids)s::bigint[])
         group by save.job, save.step
        having count(*) > 1) as doubled;

-- name: stale_writes
-- Checkpoints of a worker that had lost the job.
select count(*) as writes from chaos.saves as save where save.fence <> save.fence_of_job;

-- name: after_the_end
-- Jobs that went on after they had ended, and fences that fell.
select count(*) as changes
  from (select change.*, lag(change.fence) over (partition by change.job order by change.place) as fence_before
          from chaos.changes as change) as change
 where change.fence < change.fence_before
    or change.before not in ('queued', 'running') and change.state in ('queued', 'running');

-- name: lost_attempts
-- Attempts whose worker was taken from them.
select count(*) as attempts
  from retoma.attempts as attempt
 where attempt.job_id = any (%(ids)s::bigint[])
   and (attempt.ending in ('crashed', 'lost', 'timeout') or attempt.reason = 'beside');

-- name: given_back
-- How many seconds after a moment the last job of a process was there for others.
select extract(epoch from max(attempt.ended_at))::float8 - %(at)s::float8 as seconds
  from retoma.attempts as attempt
  join retoma.workers as worker on worker.id = attempt.worker_id
 where worker.pid = %(pid)s::integer
   and attempt.ended_at >= to_timestamp(%(at)s::float8)
   and attempt.ending in ('crashed', 'released', 'lost');

-- name: cut
-- Ends every connection of this account but one's own.
select count(pg_terminate_backend(activity.pid)) as connections
  from pg_stat_activity as activity
 where activity.datname = current_database()
   and activity.usename = current_user
   and activity.pid <> pg_backend_pid();
