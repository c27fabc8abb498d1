-- Every invariant, recomputed from the tables. Each row is a violation; a sound database returns none. Each statement
-- reads a bounded part in one snapshot, so that concurrent changes are never reported as violations.

-- name: held
-- Running jobs and their slots: no more than the workers have places.
select 'no running job without a worker that is alive' as invariant, 'job ' || job.id as what,
       'worker ' || coalesce(worker.label, 'nobody') || ' was last seen at ' || coalesce(worker.seen_at::text, 'never')
           as found
  from retoma.jobs as job
  left join retoma.workers as worker on worker.id = job.worker_id
 where job.state = 'running'
   and coalesce(worker.lease_expires_at, '-infinity') < now() - make_interval(secs => %(sweep)s::float8)
   and pg_postmaster_start_time()
       < now() - make_interval(secs => %(sweep)s::float8 + coalesce(worker.lease_seconds, 0))
union all
select 'a place of a lane has a job that runs, and one job has one place', 'job ' || slot.job_id,
       'it sits on ' || count(*) || ' places and is ' || coalesce(min(job.state), 'gone')
  from retoma.slots as slot
  left join retoma.jobs as job on job.id = slot.job_id
 where slot.job_id is not null
 group by slot.job_id
having count(*) > 1 or min(job.state) is distinct from 'running'
 order by 1, 2;

-- name: span
-- The last id of the next piece of jobs; null after the last piece.
select max(following.id) as upto
  from (select job.id
          from retoma.jobs as job
         where job.id > %(after)s::bigint
         order by job.id
         limit %(limit)s::integer) as following
having count(*) > 0;

-- name: jobs
select 'an ended job has the attempt that ended it' as invariant, 'job ' || job.id as what,
       'it is ' || job.state || ' at fence ' || job.fence || ', and its attempt says '
           || coalesce(attempt.ending, 'nothing') as found
  from retoma.jobs as job
  left join retoma.attempts as attempt on attempt.job_id = job.id and attempt.fence = job.fence
 where job.id > %(after)s::bigint
   and job.id <= %(upto)s::bigint
   and job.state in ('completed', 'skipped', 'review')
   and attempt.ending is distinct from job.state
   -- What a person accepted or corrected ended in review.
   and not (job.state = 'completed' and coalesce(attempt.ending = 'review', false)
            and exists (select from retoma.decisions as decision
                         where decision.job_id = job.id and decision.fence = job.fence
                           and decision.kind in ('accept', 'correct')))
union all
select 'a job of a batch waits in its lane', 'job ' || job.id, 'it is in lane ' || job.lane_id
  from retoma.jobs as job
  join retoma.batches as batch on batch.id = job.batch_id
 where job.id > %(after)s::bigint
   and job.id <= %(upto)s::bigint
   and job.lane_id <> batch.lane_id
   and job.lane_id is distinct from batch.pilot_lane_id
   and job.lane_id is distinct from batch.finish_lane_id
union all
select 'a job runs under a configuration of its batch', 'job ' || job.id,
       'it is of cohort ' || job.cohort || ', and its batch has none of that number'
  from retoma.jobs as job
  join retoma.batches as batch on batch.id = job.batch_id
 where job.id > %(after)s::bigint
   and job.id <= %(upto)s::bigint
   and (job.cohort > batch.cohort
        or batch.cohort > 1
           and not exists (select from retoma.cohorts as cohort
                            where cohort.batch_id = batch.id and cohort.number = job.cohort))
union all
select 'a lane in which a job is due is looked at', 'job ' || job.id,
       'it is due, and lane ' || lane.id || ' rests until ' || coalesce(lane.wake_at::text, 'somebody wakes it')
  from retoma.jobs as job
  join retoma.lanes as lane on lane.id = job.lane_id and lane.queue = job.queue
 where job.id > %(after)s::bigint
   and job.id <= %(upto)s::bigint
   and job.state = 'queued'
   and job.run_at <= now()
   and not lane.awake
   and lane.closed_at is null
   and coalesce(lane.wake_at > now(), true)
union all
select 'a job that waits in a lane has one', 'job ' || job.id, 'lane ' || job.lane_id || ' is gone'
  from retoma.jobs as job
 where job.id > %(after)s::bigint
   and job.id <= %(upto)s::bigint
   and job.state in ('queued', 'running')
   and job.lane_id > 0
   and job.batch_id is null
   and not exists (select from retoma.lanes as lane where lane.id = job.lane_id)
 order by 1, 2;

-- name: steps
-- This includes the leftovers of deleted jobs.
select 'a step has one valid checkpoint' as invariant,
       'job ' || checkpoint.job_id || ', step ' || checkpoint.step as what, 'it has ' || count(*) as found
  from retoma.checkpoints as checkpoint
 where checkpoint.job_id > %(after)s::bigint
   and checkpoint.job_id <= %(upto)s::bigint
   and checkpoint.set_aside_at is null
 group by checkpoint.job_id, checkpoint.step
having count(*) > 1
 order by 1, 2;

-- name: batches
-- The next batches after an id, as many as have that many jobs together, and at least one; all, or only open ones.
select counted.id
  from (select following.id, sum(coalesce(following.total, 0)) over (order by following.id) - coalesce(following.total, 0) as before
          from (select batch.id, batch.total
                  from retoma.batches as batch
                 where batch.id > %(after)s::bigint
                   and (not %(quick)s::boolean or batch.finished_at is null)
                 order by batch.id
                 limit 500) as following) as counted
 where counted.before < %(limit)s::integer
 order by counted.id;

-- name: of_batches
select 'the counts of a batch are its jobs' as invariant, 'batch ' || batch.id as what,
       'it says ' || batch.total || ' jobs, ' || batch.unfinished || ' unfinished, ' || batch.failures
           || ' failed, and has ' || counted.total || ', ' || counted.unfinished || ', ' || counted.failures
           as found
  from retoma.batches as batch
 cross join lateral (
       select count(*) as total,
              count(*) filter (where job.state in ('queued', 'running')) as unfinished,
              count(*) filter (where job.state = 'failed') as failures
         from retoma.jobs as job
        where job.batch_id = batch.id
          and job.id is distinct from batch.finish_job_id) as counted
 where batch.id = any (%(ids)s::bigint[])
   and batch.sealed_at is not null
   and (batch.total, batch.unfinished, batch.failures)
       is distinct from (counted.total, counted.unfinished, counted.failures)
   and batch.pruned_at is null
union all
select 'a batch whose jobs have all ended has ended', 'batch ' || batch.id, 'it is ' || batch.state
  from retoma.batches as batch
 where batch.id = any (%(ids)s::bigint[])
   and batch.sealed_at is not null
   and batch.unfinished = 0
   and (batch.finishing is null or batch.finishing in ('ended', 'failed'))
   and batch.operation_id is null
   and batch.state not in ('completed', 'failed', 'cancelled')
union all
select 'a last step ends before its batch is completed', 'batch ' || batch.id,
       'it is ' || batch.state || ', its last step is ' || batch.finishing || ', and that job is '
           || coalesce(job.state, 'gone')
  from retoma.batches as batch
  left join retoma.jobs as job on job.id = batch.finish_job_id
 where batch.id = any (%(ids)s::bigint[])
   and batch.finish_job_id is not null
   and batch.pruned_at is null
   and (batch.state = 'completed' and batch.finishing in ('waiting', 'open')
        or not batch.finish_owed
           and (job.id is null
                or batch.finishing in ('waiting', 'open') <> (job.state in ('queued', 'running'))
                or batch.finishing = 'waiting' and job.state = 'running'))
union all
select 'a batch with a last step counts the jobs that ended well', 'batch ' || batch.id,
       'it says ' || coalesce(batch.finish_well::text, 'nothing') || ', and there are ' || well.jobs
  from retoma.batches as batch
 cross join lateral (
       select count(*) as jobs
         from retoma.jobs as job
        where job.batch_id = batch.id
          and job.state in ('completed', 'skipped', 'review')
          and job.id <> batch.finish_job_id) as well
 where batch.id = any (%(ids)s::bigint[])
   and batch.finish_job_id is not null
   and batch.finish_well is distinct from well.jobs
   and batch.pruned_at is null
union all
select 'the story of a batch has no gap', 'batch ' || batch.id,
       'it has told ' || batch.event_seq || ' events, and ' || told.events || ' are there, up to ' || told.last
  from retoma.batches as batch
 cross join lateral (
       select count(*) as events, coalesce(max(event.seq), 0) as last
         from retoma.events as event
        where event.batch_id = batch.id) as told
 where batch.id = any (%(ids)s::bigint[])
   and (told.events <> batch.event_seq or told.last <> batch.event_seq)
   and batch.pruned_at is null
union all
select 'the lane of a batch is open when its jobs may be taken', 'batch ' || batch.id,
       'it is ' || batch.state || ', and its lane' || own.which || ' is '
           || case when lane.id is null then 'gone' when lane.closed_at is null then 'open' else 'closed' end
  from retoma.batches as batch
 cross join lateral (values (batch.lane_id, '', batch.held_at is null), (batch.pilot_lane_id, ' of the pilot', true),
                            (batch.finish_lane_id, ' of the last step', batch.finishing = 'open'))
       as own (lane_id, which, may)
  left join retoma.lanes as lane on lane.id = own.lane_id
 where batch.id = any (%(ids)s::bigint[])
   and own.lane_id is not null
   and (lane.id is null
        or batch.state <> 'completed'
           and (lane.closed_at is null)
               <> (batch.sealed_at is not null and batch.state in ('queued', 'running', 'stalled')
                   and own.may))
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
 where batch.id = any (%(ids)s::bigint[])
   and (batch.spent <> paid.spent or batch.reserved <> paid.reserved)
union all
select 'a batch counts its calls whose cost nobody knows', 'batch ' || batch.id,
       'it says ' || batch.unpriced || ', and there are ' || found.calls
  from retoma.batches as batch
 cross join lateral (
       select count(*) as calls
         from retoma.calls as call
        where call.batch_id = batch.id
          and call.cost is null
          and call.cost_basis is not null) as found
 where batch.id = any (%(ids)s::bigint[])
   and batch.unpriced <> found.calls
 order by 1, 2;

-- name: commanded
-- What commands on batches have left: operations, and configurations.
select 'an operation under way is that of its batch' as invariant, 'batch ' || batch.id as what,
       'it names ' || coalesce(batch.operation_id::text, 'none') || ', and under way is '
           || coalesce(operation.id::text, 'none') as found
  from retoma.batches as batch
  left join retoma.operations as operation on operation.batch_id = batch.id and operation.finished_at is null
 where batch.id = any (%(ids)s::bigint[])
   and operation.id is distinct from batch.operation_id
   and batch.pruned_at is null
union all
select 'the newest configuration of a batch is that of its newest cohort', 'batch ' || batch.id,
       'its cohort ' || batch.cohort || ' has ' || case when cohort.number is null then 'none' else 'another one' end
  from retoma.batches as batch
  left join retoma.cohorts as cohort on cohort.batch_id = batch.id and cohort.number = batch.cohort
 where batch.id = any (%(ids)s::bigint[])
   and batch.cohort > 1
   and cohort.configuration::text is distinct from batch.configuration::text
   and batch.pruned_at is null
 order by 1, 2;

-- name: saved
-- Valid checkpoints, a page at a time, so that the caller can recompute their checksums.
select checkpoint.job_id, checkpoint.step, checkpoint.generation, checkpoint.value::text as value,
       checkpoint.checksum
  from retoma.checkpoints as checkpoint
 where (checkpoint.job_id, checkpoint.step, checkpoint.generation)
       > (%(job_id)s::bigint, %(step)s::text, %(generation)s::smallint)
   and checkpoint.set_aside_at is null
 order by checkpoint.job_id, checkpoint.step, checkpoint.generation
 limit %(limit)s::integer;
