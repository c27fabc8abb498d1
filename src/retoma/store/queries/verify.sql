-- Every invariant, recomputed from the tables. What comes back does not hold; a sound database answers nothing.

-- name: breaches
-- In one snapshot, so that what moves meanwhile is never taken for a breach.
with found as (
    select 'an ended job has the attempt that ended it' as invariant, 'job ' || job.id as what,
           'it is ' || job.state || ' at fence ' || job.fence || ', and its attempt says '
               || coalesce(attempt.ending, 'nothing') as found
      from retoma.jobs as job
      left join retoma.attempts as attempt on attempt.job_id = job.id and attempt.fence = job.fence
     where job.state in ('completed', 'skipped', 'review')
       and attempt.ending is distinct from job.state
    union all
    select 'no running job without a worker that is alive', 'job ' || job.id,
           'worker ' || coalesce(worker.label, 'nobody') || ' was last seen at ' || coalesce(worker.seen_at::text, 'never')
      from retoma.jobs as job
      left join retoma.workers as worker on worker.id = job.worker_id
     where job.state = 'running'
       and coalesce(worker.lease_expires_at, '-infinity') < now() - make_interval(secs => %(sweep)s::float8)
       and pg_postmaster_start_time()
           < now() - make_interval(secs => %(sweep)s::float8 + coalesce(worker.lease_seconds, 0))
    union all
    select 'a step has one valid checkpoint', 'job ' || checkpoint.job_id || ', step ' || checkpoint.step,
           'it has ' || count(*)
      from retoma.checkpoints as checkpoint
     where checkpoint.set_aside_at is null
     group by checkpoint.job_id, checkpoint.step
    having count(*) > 1
    union all
    select 'a place of a lane has a job that runs, and one job has one place', 'job ' || slot.job_id,
           'it sits on ' || count(*) || ' places and is ' || coalesce(min(job.state), 'gone')
      from retoma.slots as slot
      left join retoma.jobs as job on job.id = slot.job_id
     where slot.job_id is not null
     group by slot.job_id
    having count(*) > 1 or min(job.state) is distinct from 'running'
    union all
    select 'the counts of a batch are its jobs', 'batch ' || batch.id,
           'it says ' || batch.total || ' jobs, ' || batch.unfinished || ' unfinished, ' || batch.failures
               || ' failed, and has ' || counted.total || ', ' || counted.unfinished || ', ' || counted.failures
      from retoma.batches as batch
     cross join lateral (
           select count(*) as total,
                  count(*) filter (where job.state in ('queued', 'running')) as unfinished,
                  count(*) filter (where job.state = 'failed') as failures
             from retoma.jobs as job
            where job.batch_id = batch.id) as counted
     where batch.sealed_at is not null
       and (batch.total, batch.unfinished, batch.failures)
           is distinct from (counted.total, counted.unfinished, counted.failures)
       -- A batch that is being pruned loses its jobs first.
       and (batch.finished_at is null or counted.total = batch.total)
    union all
    select 'a batch whose jobs have all ended has ended', 'batch ' || batch.id, 'it is ' || batch.state
      from retoma.batches as batch
     where batch.sealed_at is not null
       and batch.unfinished = 0
       and batch.state not in ('completed', 'failed', 'cancelled')
    union all
    select 'the story of a batch has no gap', 'batch ' || batch.id,
           'it has told ' || batch.event_seq || ' events, and ' || told.events || ' are there, up to ' || told.last
      from retoma.batches as batch
     cross join lateral (
           select count(*) as events, coalesce(max(event.seq), 0) as last
             from retoma.events as event
            where event.batch_id = batch.id) as told
     where told.events <> batch.event_seq or told.last <> batch.event_seq
    union all
    select 'the lane of a batch is open when its jobs may be taken', 'batch ' || batch.id,
           'it is ' || batch.state || ', and its lane is '
               || case when lane.id is null then 'gone' when lane.closed_at is null then 'open' else 'closed' end
      from retoma.batches as batch
      left join retoma.lanes as lane on lane.id = batch.lane_id
     where lane.id is null
        or batch.state <> 'completed'
           and (lane.closed_at is null)
               <> (batch.sealed_at is not null and batch.state in ('queued', 'running', 'stalled'))
    union all
    select 'what a batch has spent and reserved is in its calls', 'batch ' || batch.id,
           'it says ' || batch.spent || ' spent and ' || batch.reserved || ' reserved, and its calls say '
               || paid.spent || ' and ' || paid.reserved
      from retoma.batches as batch
     cross join lateral (
           select coalesce(sum(call.cost), 0) as spent,
                  coalesce(sum(call.reserved) filter (where call.state in ('open', 'doubtful')), 0) as reserved
             from retoma.calls as call
            where call.batch_id = batch.id) as paid
     where batch.spent <> paid.spent or batch.reserved <> paid.reserved
    union all
    select 'a job of a batch waits in its lane', 'job ' || job.id, 'it is in lane ' || job.lane_id
      from retoma.jobs as job
      join retoma.batches as batch on batch.id = job.batch_id
     where job.lane_id <> batch.lane_id
)
select found.invariant, found.what, found.found
  from found
 order by 1, 2
 limit %(limit)s::integer;

-- name: saved
-- Checkpoints that count, a page at a time, for who recomputes their checksums.
select checkpoint.job_id, checkpoint.step, checkpoint.generation, checkpoint.value::text as value,
       checkpoint.checksum
  from retoma.checkpoints as checkpoint
 where (checkpoint.job_id, checkpoint.step, checkpoint.generation)
       > (%(job_id)s::bigint, %(step)s::text, %(generation)s::smallint)
   and checkpoint.set_aside_at is null
 order by checkpoint.job_id, checkpoint.step, checkpoint.generation
 limit %(limit)s::integer;
