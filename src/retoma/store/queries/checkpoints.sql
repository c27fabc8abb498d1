-- What the steps of a job have returned. A checkpoint is added or set aside, never overwritten.

-- name: of
-- Newest generation first; age is measured by the database's clock. Values are included while they are short and few: a
-- job may have saved more than fits in memory, and needs one at a time. (The stored size is known without reading the
-- value; a value that is short when compressed may still be long.)
select checkpoint.step, checkpoint.generation,
       case when short.size is not null
                 and sum(short.size) over (order by checkpoint.step, checkpoint.generation desc) <= %(together)s::integer
            then checkpoint.value::text end as value,
       checkpoint.checksum, checkpoint.fingerprint, checkpoint.input_hash, checkpoint.fence,
       extract(epoch from now() - checkpoint.saved_at)::float8 as age
  from retoma.checkpoints as checkpoint
 cross join lateral (
       select case when pg_column_size(checkpoint.value) > %(short)s::integer then null
                   when octet_length(checkpoint.value::text) <= %(short)s::integer
                   then octet_length(checkpoint.value::text)
              end as size) as short
 where checkpoint.job_id = %(job_id)s::bigint
   and checkpoint.set_aside_at is null
 order by checkpoint.step, checkpoint.generation desc;

-- name: value
-- A value that was too long to be included.
select checkpoint.value::text as value
  from retoma.checkpoints as checkpoint
 where checkpoint.job_id = %(job_id)s::bigint
   and checkpoint.step = %(step)s::text
   and checkpoint.generation = %(generation)s::smallint
   and checkpoint.set_aside_at is null;

-- name: save
-- Guarded by the fence under the job's lock: a worker that has lost the job gets no row back, and a statement that
-- takes the job away waits for this commit. Locks are taken in the order of the parameters (by job). A step that this
-- claim has saved already is not saved again, whether that commit is visible in the snapshot or only just happened.
with said as materialized (
    select *
      from unnest(%(jobs)s::bigint[], %(fences)s::bigint[], %(steps)s::text[], %(saved_values)s::text[],
                  %(checksums)s::text[], %(fingerprints)s::text[], %(input_hashes)s::text[], %(seconds)s::real[])
           with ordinality
           as said (job_id, fence, step, value, checksum, fingerprint, input_hash, seconds, place)
),
held as materialized (
    select said.*
      from said
      join retoma.jobs as job on job.id = said.job_id
                             and job.fence = said.fence
                             and job.worker_id = %(worker_id)s::bigint
     where not exists (select from retoma.checkpoints as same
                        where same.job_id = said.job_id
                          and same.step = said.step
                          and same.fence = said.fence
                          and same.checksum = said.checksum
                          and same.set_aside_at is null)
       for no key update of job
)
insert into retoma.checkpoints (job_id, step, generation, value, checksum, fingerprint, input_hash, fence, seconds)
select held.job_id, held.step,
       coalesce((select max(earlier.generation) from retoma.checkpoints as earlier
                  where earlier.job_id = held.job_id and earlier.step = held.step), 0) + 1,
       held.value::json, held.checksum, held.fingerprint, held.input_hash, held.fence, held.seconds
  from held
on conflict (job_id, step, generation) do nothing
returning job_id, step;

-- name: saved
-- After a lost acknowledgement: which of these checkpoints this claim had written.
select said.job_id, said.step
  from unnest(%(jobs)s::bigint[], %(fences)s::bigint[], %(steps)s::text[], %(checksums)s::text[])
       as said (job_id, fence, step, checksum)
  join retoma.checkpoints as checkpoint on checkpoint.job_id = said.job_id
                                       and checkpoint.step = said.step
                                       and checkpoint.fence = said.fence
                                       and checkpoint.checksum = said.checksum
                                       and checkpoint.set_aside_at is null;

-- name: set_aside
-- Kept as evidence of what was wrong; no run reads it again. With a fence, only the holder of the job may do this.
with held as materialized (
    select job.id
      from retoma.jobs as job
     where job.id = %(job_id)s::bigint
       and (%(fence)s::bigint is null or job.fence = %(fence)s::bigint and job.worker_id is not null)
       for no key update
)
update retoma.checkpoints as checkpoint
   set set_aside_at = now(),
       reason = %(reason)s::text
  from held
 where checkpoint.job_id = held.id
   and (%(step)s::text is null or checkpoint.step = %(step)s::text)
   and (%(generation)s::smallint is null or checkpoint.generation = %(generation)s::smallint)
   and checkpoint.set_aside_at is null
returning checkpoint.step, checkpoint.generation;

-- name: history
-- All of them, for people, including those set aside. Values only on request, because they may be long.
select checkpoint.job_id, checkpoint.step, checkpoint.generation,
       case when %(values)s::boolean then checkpoint.value::text end as value,
       checkpoint.checksum, checkpoint.fingerprint, checkpoint.input_hash, checkpoint.fence, checkpoint.seconds,
       checkpoint.saved_at, checkpoint.set_aside_at, checkpoint.reason
  from retoma.checkpoints as checkpoint
 where checkpoint.job_id = %(job_id)s::bigint
   and (%(saved_at)s::timestamptz is null
        or (checkpoint.saved_at, checkpoint.step, checkpoint.generation)
           > (%(saved_at)s::timestamptz, %(step)s::text, %(generation)s::integer))
 order by checkpoint.saved_at, checkpoint.step, checkpoint.generation
 limit %(limit)s::integer;

-- name: again
-- What a restart from a step would set aside, in the order it was saved, and what the calls of these steps have cost.
-- With no step, everything. (Calls made inside a step have its name, or one below it.)
select checkpoint.step, checkpoint.seconds, coalesce(paid.calls, 0)::integer as calls,
       coalesce(paid.cost, 0) as cost, coalesce(paid.unpriced, 0)::integer as unpriced
  from retoma.checkpoints as checkpoint
  left join lateral (
       select count(*) as calls, sum(call.cost) as cost, count(*) filter (where call.cost is null) as unpriced
         from retoma.calls as call
        where call.job_id = checkpoint.job_id
          and call.state = 'answered'
          and (call.step = checkpoint.step or starts_with(call.step, checkpoint.step || '/'))) as paid on true
 where checkpoint.job_id = %(job_id)s::bigint
   and checkpoint.set_aside_at is null
   and (%(step)s::text is null
        or checkpoint.saved_at >= (select min(named.saved_at)
                                     from retoma.checkpoints as named
                                    where named.job_id = checkpoint.job_id
                                      and named.step = %(step)s::text
                                      and named.set_aside_at is null))
 order by checkpoint.saved_at, checkpoint.step, checkpoint.generation;
