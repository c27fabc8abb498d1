-- Commands on many jobs, carried out in pieces by any process: on those of one batch, or on those that a filter finds.

-- name: begin
-- In the transaction that decides, with the batch locked.
with begun as (
    insert into retoma.operations (batch_id, kind, asked_by, asked, left_over, after, wanted, done)
    values (%(batch_id)s::bigint, %(kind)s::text, %(asked_by)s::text, %(asked)s::json, %(left_over)s::bigint[],
            %(after)s::bigint, %(wanted)s::integer, %(done)s::integer)
    returning id, batch_id
),
marked as (
    update retoma.batches as batch set operation_id = begun.id from begun where batch.id = begun.batch_id
)
select begun.id from begun;

-- name: come
-- Acquires the next piece, unless another process is working on it, or on a command on the same batch. The next
-- statement reads how far the operation has come, so that it sees what the previous holder has committed.
select case when operation.batch_id is null
            then pg_try_advisory_xact_lock(736803, (operation.id %% 2147483647)::integer)
            else pg_try_advisory_xact_lock(736802, (operation.batch_id %% 2147483647)::integer) end as ours
  from retoma.operations as operation
 where operation.id = %(id)s::bigint
   and operation.finished_at is null;

-- name: take
-- Locks the operation, so that it is not cancelled between a piece and its record.
select operation.id, operation.batch_id, operation.kind, operation.asked::text as asked, operation.after,
       operation.left_over, operation.started_at, batch.state, operation.filter::text as filter, operation.upto,
       operation.asked_by
  from retoma.operations as operation
  left join retoma.batches as batch on batch.id = operation.batch_id
 where operation.id = %(id)s::bigint
   and operation.finished_at is null
   for no key update of operation;

-- name: advance
update retoma.operations as operation
   set after = %(after)s::bigint,
       left_over = %(left_over)s::bigint[],
       done = operation.done + %(moved)s::integer,
       skipped = (select coalesce(jsonb_object_agg(each.reason, each.jobs), '{}')
                    from (select passed.key as reason, sum(passed.value::integer) as jobs
                            from (select * from jsonb_each_text(operation.skipped)
                                  union all
                                  select * from jsonb_each_text(%(skipped)s::jsonb)) as passed
                           group by passed.key) as each)
 where operation.id = %(id)s::bigint
   and operation.finished_at is null
returning operation.id;

-- name: finish
update retoma.operations as operation
   set finished_at = now(),
       left_over = '{}',
       error = %(error)s::text
 where operation.id = %(id)s::bigint
   and operation.finished_at is null
returning operation.id;

-- name: open
-- What is still to be carried out, oldest first.
select operation.id
  from retoma.operations as operation
 where operation.finished_at is null
 order by operation.id
 limit %(limit)s::integer;

-- name: one
select operation.id, operation.batch_id, operation.kind, operation.asked_by, operation.wanted, operation.done,
       operation.started_at, operation.finished_at, operation.error, operation.asked::text as asked,
       operation.filter::text as filter, operation.skipped::text as skipped, operation.exact, operation.after,
       operation.upto
  from retoma.operations as operation
 where operation.id = %(id)s::bigint;

-- name: of
-- Newest first.
select operation.id, operation.batch_id, operation.kind, operation.asked_by, operation.wanted, operation.done,
       operation.started_at, operation.finished_at, operation.error, operation.asked::text as asked,
       operation.filter::text as filter, operation.skipped::text as skipped, operation.exact, operation.after,
       operation.upto
  from retoma.operations as operation
 where operation.batch_id = %(batch_id)s::bigint
 order by operation.id desc
 limit %(limit)s::integer;

-- name: page
-- Those of all batches, newest first.
select operation.id, operation.batch_id, operation.kind, operation.asked_by, operation.wanted, operation.done,
       operation.started_at, operation.finished_at, operation.error, operation.asked::text as asked,
       operation.filter::text as filter, operation.skipped::text as skipped, operation.exact, operation.after,
       operation.upto
  from retoma.operations as operation
 where operation.id < %(before)s::bigint
   and (not %(under_way)s::boolean or operation.finished_at is null)
 order by operation.id desc
 limit %(limit)s::integer;

-- name: begin_by_filter
-- The newest job that exists now is the last that it concerns.
insert into retoma.operations (kind, asked_by, asked, filter, upto, wanted, exact)
select %(kind)s::text, %(asked_by)s::text, %(asked)s::json, %(filter)s::json,
       coalesce((select max(job.id) from retoma.jobs as job), 0), %(wanted)s::integer, %(exact)s::boolean
returning id;

-- name: count
-- What a piece would do, by verdict, without a lock; with some of the jobs.
-- include: matching
judged as materialized (
    select job.id, job.pipeline, job.key, job.state, job.batch_id,
-- include: verdict
           as verdict
      from matched
      join retoma.jobs as job on job.id = matched.id
      left join retoma.batches as batch on batch.id = job.batch_id
)
select (select coalesce(jsonb_object_agg(each.verdict, each.jobs), '{}')
          from (select coalesce(judged.verdict, '') as verdict, count(*) as jobs from judged group by 1) as each
       )::text as verdicts,
       (select coalesce(json_agg(json_build_array(judged.id, judged.pipeline, judged.key, judged.state,
                                                  judged.batch_id) order by judged.id), '[]')
          from (select * from judged where judged.verdict is null order by judged.id limit %(sample)s::integer) as judged
       )::text as sample,
       (select coalesce(array_agg(distinct judged.batch_id), '{}')
          from judged where judged.verdict is null and judged.batch_id is not null) as batches,
-- include: reached
       as stopped;

-- name: pick
-- Locks the next jobs of an operation, in the order of their ids, and judges them as they are under the lock. Jobs that
-- another transaction has locked are not waited for: they are visited again.
-- include: matching
held as materialized (
    select job.id,
-- include: verdict
           as verdict
      from matched
      join retoma.jobs as job on job.id = matched.id
      left join retoma.batches as batch on batch.id = job.batch_id
     order by job.id
       for no key update of job skip locked
)
select coalesce((select array_agg(held.id order by held.id) from held where held.verdict is null), '{}') as ids,
       coalesce((select array_agg(matched.id order by matched.id) from matched
                  where matched.id not in (select held.id from held)), '{}') as locked,
       (select coalesce(jsonb_object_agg(each.verdict, each.jobs), '{}')
          from (select held.verdict, count(*) as jobs from held where held.verdict is not null group by 1) as each
       )::text as skipped,
-- include: reached
       as stopped;

-- name: prune
-- Operations by a filter that ended long ago; those of a batch go with it.
with old as materialized (
    select operation.id
      from retoma.operations as operation
     where operation.batch_id is null
       and operation.finished_at < now() - make_interval(secs => %(older_than)s::float8)
     order by operation.finished_at
     limit %(limit)s::integer
       for update skip locked
)
delete from retoma.operations as operation using old where operation.id = old.id
returning operation.id;
