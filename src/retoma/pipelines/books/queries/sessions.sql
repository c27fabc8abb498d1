-- Sessions: one book in one configuration.

-- name: keep_input
-- The input, once per content; no row comes back when it is there already.
insert into books.inputs (sha256, filename, kind, size, blob)
values (%(sha256)s::text, %(filename)s::text, %(kind)s::text, %(size)s::bigint, %(blob)s::text)
    on conflict (sha256) do nothing
returning sha256;

-- name: input
select input.sha256, input.filename, input.kind, input.size, input.blob
  from books.inputs as input
 where input.sha256 = %(sha256)s::text;

-- name: begin
-- A session, once per input and configuration; no row comes back when there is one.
insert into books.sessions (id, title, input_sha256, configuration, configuration_hash, started_at, correlation_id,
                            created_by)
values (%(id)s::text, %(title)s::text, %(input_sha256)s::text, %(configuration)s::text, %(configuration_hash)s::text,
        coalesce(%(started_at)s::timestamptz, now()), %(correlation_id)s::text, %(created_by)s::text)
    on conflict do nothing
returning id;

-- name: same
-- The session of that input in that configuration.
select session.id
  from books.sessions as session
 where session.input_sha256 = %(input_sha256)s::text
   and session.configuration_hash = %(configuration_hash)s::text;

-- name: hold
-- Whoever changes a session goes alone.
select session.id, session.number, session.input_sha256, session.configuration, session.configuration_hash,
       session.job_id, session.runs, session.planned_at, session.approved_at, session.doubts,
       session.started_at, session.finished_at, session.title
  from books.sessions as session
 where session.id = %(id)s::text
   for update;

-- name: owned
-- The same for its own job: no row comes back when another one has taken over.
select session.id, session.number, session.input_sha256, session.configuration, session.configuration_hash,
       session.job_id, session.runs, session.planned_at, session.approved_at, session.doubts,
       session.started_at, session.finished_at, session.title
  from books.sessions as session
 where session.id = %(id)s::text
   and session.job_id = %(job)s::bigint
   for update;

-- name: queue
update books.sessions as session
   set job_id = %(job)s::bigint, runs = session.runs + 1, updated_at = now()
 where session.id = %(id)s::text
returning session.id;

-- name: attach
-- The input of a session that came without one, as a folder of checkpoints does.
update books.sessions as session
   set input_sha256 = %(input_sha256)s::text, updated_at = now()
 where session.id = %(id)s::text
   and session.input_sha256 is null
returning session.id;

-- name: planned
update books.sessions as session
   set detector = %(detector)s::text, left_out = %(left_out)s::text, doubts = %(doubts)s::text,
       pages = %(pages)s::integer, reader = %(reader)s::text, planned_at = now(), updated_at = now()
 where session.id = %(id)s::text
returning session.id;

-- name: arranged
-- What a person made of the list of chapters; the doubts stay until it is accepted.
update books.sessions as session
   set detector = %(detector)s::text, left_out = %(left_out)s::text, updated_at = now()
 where session.id = %(id)s::text
returning session.id;

-- name: approve
update books.sessions as session
   set approved_at = coalesce(session.approved_at, now()), updated_at = now()
 where session.id = %(id)s::text
returning session.id;

-- name: finish
-- All chapters have a valid checkpoint, or not any more.
update books.sessions as session
   set finished_at = case when %(done)s::boolean then coalesce(session.finished_at, now()) end, updated_at = now()
 where session.id = %(id)s::text
returning session.id;

-- name: one
-- include: session
 where session.id = %(id)s::text;

-- name: page
-- include: session
 where session.number < coalesce(%(before)s::bigint, 9223372036854775807)
 order by session.number desc
 limit %(limit)s::integer;

-- name: remove
delete from books.sessions as session
 where session.id = %(id)s::text
returning session.input_sha256, session.job_id;

-- name: remove_input
-- The input goes with its last session.
delete from books.inputs as input
 where input.sha256 = %(sha256)s::text
   and not exists (select 1 from books.sessions as session where session.input_sha256 = input.sha256)
returning input.blob;

-- name: price
-- What a word of a book has cost so far with a model, from the calls of jobs that are still there. The file is not
-- read again, so only what a model was asked counts. A book of which an answer has no price says nothing, and neither
-- does one whose answers were all known before.
select coalesce(sum(asked.cost), 0) as cost, coalesce(sum(made.words), 0) as words
  from books.sessions as session
 cross join lateral (
       select sum(call.cost) as cost,
              bool_or(call.cost is null and call.cost_basis in ('unpriced', 'unreported')) as unknown
         from retoma.calls as call
        where call.job_id = session.job_id
          and call.step like 'ask/%%') as asked
 cross join lateral (
       select sum(checkpoint.words) as words
         from books.checkpoints as checkpoint
        where checkpoint.session_id = session.id
          and checkpoint.origin = 'run') as made
 where session.configuration_hash = %(configuration_hash)s::text
   and session.runs = 1
   and session.finished_at is not null
   and asked.cost is not null
   and not asked.unknown;
