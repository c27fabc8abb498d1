-- Commands on large batches, carried out in pieces by any process.

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
select pg_try_advisory_xact_lock(736802, (operation.batch_id %% 2147483647)::integer) as ours
  from retoma.operations as operation
 where operation.id = %(id)s::bigint
   and operation.finished_at is null;

-- name: take
select operation.id, operation.batch_id, operation.kind, operation.asked::text as asked, operation.after,
       operation.left_over, operation.started_at, batch.state
  from retoma.operations as operation
  join retoma.batches as batch on batch.id = operation.batch_id
 where operation.id = %(id)s::bigint
   and operation.finished_at is null;

-- name: advance
update retoma.operations as operation
   set after = %(after)s::bigint,
       left_over = %(left_over)s::bigint[],
       done = operation.done + %(moved)s::integer
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
       operation.started_at, operation.finished_at, operation.error
  from retoma.operations as operation
 where operation.id = %(id)s::bigint;

-- name: of
-- Newest first.
select operation.id, operation.batch_id, operation.kind, operation.asked_by, operation.wanted, operation.done,
       operation.started_at, operation.finished_at, operation.error
  from retoma.operations as operation
 where operation.batch_id = %(batch_id)s::bigint
 order by operation.id desc
 limit %(limit)s::integer;
