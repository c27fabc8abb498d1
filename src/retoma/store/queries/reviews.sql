-- What waits for a person's decision. Whoever looks at one has a lease on it, by the database's clock; a lease that ends
-- gives it back. A decision locks the job first and then the review, as the ending of a job does, so nothing deadlocks.

-- name: file
-- Things that extensions say are in doubt. One that was settled before comes back only when its doubt is younger than
-- that, so a list that was read before a decision does not bring back what was decided.
with given as materialized (
    select given.*
      from unnest(%(items)s::text[], %(job_ids)s::bigint[], %(pipelines)s::text[], %(batch_ids)s::bigint[],
                  %(titles)s::text[], %(reasons)s::text[], %(proposals)s::text[], %(labels)s::text[],
                  %(versions)s::text[], %(confidences)s::float8[], %(margins)s::float8[], %(sinces)s::timestamptz[])
           as given (item, job_id, pipeline, batch_id, title, reason, proposal, label, version, confidence, margin,
                     since)
     order by given.item
)
insert into retoma.reviews as review (source, item, job_id, pipeline, batch_id, title, reason, proposal, label, version,
                                      confidence, margin, created_at)
select %(source)s::text, given.item, given.job_id, given.pipeline, given.batch_id, given.title, given.reason,
       given.proposal::json, given.label, given.version, given.confidence, given.margin, given.since
  from given
on conflict (source, item) do update
   set job_id = excluded.job_id,
       pipeline = excluded.pipeline,
       batch_id = excluded.batch_id,
       state = 'open',
       title = excluded.title,
       reason = excluded.reason,
       proposal = excluded.proposal,
       label = excluded.label,
       version = excluded.version,
       confidence = excluded.confidence,
       margin = excluded.margin,
       created_at = excluded.created_at,
       settled_at = null,
       leased_by = null,
       leased_until = null,
       skipped_by = '{}'
 where review.settled_at < excluded.created_at
returning review.id;

-- name: mine
-- The reviews that somebody looks at now; each lease begins anew.
update retoma.reviews as review
   set leased_until = now() + make_interval(secs => %(seconds)s::float8)
 where review.leased_by = %(holder)s::text
   and review.leased_until > now()
   and review.state = 'open'
   and (%(ids)s::bigint[] is null or review.id = any (%(ids)s::bigint[]))
   and
-- include: review_wanted
   and
-- include: review_waits
returning
-- include: review_columns
;

-- name: lease
-- The next ones, those with the lowest margin first. Rows that another statement holds are skipped, and a row that was
-- leased meanwhile is left out when its newest version is read under the lock: two people never get the same one.
with free as materialized (
    select review.id
      from retoma.reviews as review
     where review.state = 'open'
       and (review.leased_until is null or review.leased_until <= now())
       and (%(skipped)s::boolean or not (%(holder)s::text = any (review.skipped_by)))
       and
-- include: review_wanted
       and
-- include: review_waits
     order by review.margin, review.id
     limit %(limit)s::integer
       for no key update of review skip locked
)
update retoma.reviews as review
   set leased_by = %(holder)s::text,
       leased_until = now() + make_interval(secs => %(seconds)s::float8)
  from free
 where review.id = free.id
returning
-- include: review_columns
;

-- name: release
-- Somebody looks at these no more. With *skip* they come back to the same person after all others.
update retoma.reviews as review
   set leased_by = null,
       leased_until = null,
       skipped_by = case when %(skip)s::boolean and not (%(holder)s::text = any (review.skipped_by))
                         then review.skipped_by || %(holder)s::text else review.skipped_by end
 where review.leased_by = %(holder)s::text
   and review.state = 'open'
   and (%(ids)s::bigint[] is null or review.id = any (%(ids)s::bigint[]))
returning review.id;

-- name: hold
-- A review under its lock, and under that of its job, for the transaction that decides.
with held_job as materialized (
    select job.id, job.state, job.fence
      from retoma.jobs as job
     where job.id = (select review.job_id from retoma.reviews as review where review.id = %(id)s::bigint)
       for no key update
)
select
-- include: review_columns
, (select held_job.state from held_job) as job_state, (select held_job.fence from held_job) as job_fence,
       coalesce(review.leased_until > now() and review.leased_by <> %(holder)s::text, false) as taken
  from retoma.reviews as review
 where review.id = %(id)s::bigint
   and (select count(*) from held_job) >= 0
   for no key update of review;

-- name: settle
-- A decision moves the job: out of review, or back into it when the decision is undone. Nothing happens unless the job
-- is where the decision found it, at the same fence.
with settled as (
    update retoma.jobs as job
       set state = %(state)s::text,
           reason = %(reason)s::text,
           output = %(output)s::json,
           error = %(error)s::text,
           cancel_requested_at = null,
           finished_at = now()
     where job.id = %(job_id)s::bigint
       and job.fence = %(fence)s::bigint
       and job.state = %(was)s::text
    returning job.id, job.batch_id, job.key, job.state
),
moved as (
    select settled.batch_id, settled.id, settled.key, %(was)s::text as was, settled.state, null::real as seconds
      from settled
),
-- include: tell
select settled.id, settled.state from settled;

-- name: close
-- A review that is decided, or that turned out to be in doubt no more.
update retoma.reviews as review
   set state = %(state)s::text,
       settled_at = now(),
       leased_by = null,
       leased_until = null
 where review.id = %(id)s::bigint
   and review.state = 'open'
returning review.id;

-- name: reopen
-- A decision was undone: the thing waits again, for the person who undid it.
update retoma.reviews as review
   set state = 'open',
       settled_at = null,
       leased_by = %(holder)s::text,
       leased_until = now() + make_interval(secs => %(seconds)s::float8)
 where review.id = %(id)s::bigint
   and review.state = 'settled'
returning review.id;

-- name: one
select
-- include: review_columns
  from retoma.reviews as review
 where review.id = %(id)s::bigint;

-- name: page
-- Those that wait, lowest margin first; after a cursor, which is the margin and the id of the last one seen.
select
-- include: review_columns
  from retoma.reviews as review
 where review.state = 'open'
   and (%(after_id)s::bigint is null
        or (coalesce(review.margin, 'infinity'), review.id)
           > (coalesce(%(after_margin)s::real, 'infinity'), %(after_id)s::bigint))
   and (%(job_id)s::bigint is null or review.job_id = %(job_id)s::bigint)
   and
-- include: review_wanted
   and
-- include: review_waits
 order by review.margin, review.id
 limit %(limit)s::integer;

-- name: counts
-- How many wait, by pipeline and label, and how many of them somebody looks at now. Counting stops at a bound.
select waiting.pipeline, waiting.label, count(*)::integer as waiting,
       (count(*) filter (where waiting.leased_until > now()))::integer as taken
  from (select review.pipeline, review.label, review.leased_until
          from retoma.reviews as review
         where review.state = 'open'
           and
-- include: review_wanted
           and
-- include: review_waits
         limit %(limit)s::integer) as waiting
 group by waiting.pipeline, waiting.label
 order by waiting.pipeline, count(*) desc, waiting.label;

-- name: decide
-- A decision, once: a second row under the same key is not written.
insert into retoma.decisions (key, review_id, source, item, job_id, fence, pipeline, batch_id, who, name, kind,
                              proposed, decided, label, decided_label, version, confidence, margin, note, seconds,
                              undoes)
select %(key)s::text, review.id, review.source, review.item, review.job_id, review.fence, review.pipeline,
       review.batch_id, %(who)s::text, %(name)s::text, %(kind)s::text, review.proposal, %(decided)s::json,
       review.label, %(decided_label)s::text, review.version, review.confidence, review.margin, %(note)s::text,
       %(seconds)s::real, %(undoes)s::bigint
  from retoma.reviews as review
 where review.id = %(id)s::bigint
on conflict (key) do nothing
returning id;

-- name: by_key
select
-- include: decision_columns
  from retoma.decisions as decision
 where decision.key = %(key)s::text;

-- name: decisions
-- What was decided, newest first; an undone decision says by which row.
select
-- include: decision_columns
  from retoma.decisions as decision
 where (%(before)s::bigint is null or decision.id < %(before)s::bigint)
   and (%(review_id)s::bigint is null or decision.review_id = %(review_id)s::bigint)
   and (%(who)s::text is null or decision.who = %(who)s::text)
   and (not %(standing)s::boolean or decision.kind <> 'undo' and not exists (
        select from retoma.decisions as undo where undo.undoes = decision.id))
   and
-- include: decision_wanted
 order by decision.id desc
 limit %(limit)s::integer;

-- name: export
-- The same, oldest first after an id: a piece of a whole export.
select
-- include: decision_columns
  from retoma.decisions as decision
 where decision.id > %(after)s::bigint
   and
-- include: decision_wanted
 order by decision.id
 limit %(limit)s::integer;

-- name: agreement
-- How often people kept the proposal, by label and version, and by tenths of the confidence. Undone decisions and
-- sendings back count for nothing.
select decision.pipeline, decision.label, decision.version,
       least(floor(decision.confidence * 10)::integer, 9) as tenth,
       count(*)::integer as decided,
       (count(*) filter (where decision.kind = 'accept'))::integer as agreed,
       avg(decision.confidence)::float8 as confidence
  from retoma.decisions as decision
 where decision.kind in ('accept', 'correct', 'reject')
   and not exists (select from retoma.decisions as undo where undo.undoes = decision.id)
   and
-- include: decision_wanted
 group by 1, 2, 3, 4
 order by 1, 2, 3, 4;
