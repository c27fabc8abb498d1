-- The quotas of HTTP callers. The database counts for all server processes together.

-- name: spend
-- All or nothing: no row back means that not enough is left today. Concurrent requests wait for each other at the row,
-- so that together they stay within the limit. Negative numbers return what was taken in excess.
insert into retoma.usage as used (caller, day, bytes, files)
select %(caller)s::text, (now() at time zone 'utc')::date, greatest(0, %(bytes)s::bigint), greatest(0, %(files)s::bigint)
 where %(bytes)s::bigint <= coalesce(%(most_bytes)s::bigint, %(bytes)s::bigint)
   and %(files)s::bigint <= coalesce(%(most_files)s::bigint, %(files)s::bigint)
on conflict (caller) do update
   set day = excluded.day,
       bytes = greatest(0, case when used.day = excluded.day then used.bytes else 0 end + %(bytes)s::bigint),
       files = greatest(0, case when used.day = excluded.day then used.files else 0 end + %(files)s::bigint)
 where used.day <> excluded.day
    or (    used.bytes + %(bytes)s::bigint <= coalesce(%(most_bytes)s::bigint, used.bytes + %(bytes)s::bigint)
        and used.files + %(files)s::bigint <= coalesce(%(most_files)s::bigint, used.files + %(files)s::bigint))
returning used.caller;

-- name: spent
-- What a caller has sent today, and the seconds until the next day.
select coalesce(sum(used.bytes), 0)::bigint as bytes,
       coalesce(sum(used.files), 0)::bigint as files,
       ceil(extract(epoch from date_trunc('day', now() at time zone 'utc') + interval '1 day'
                               - (now() at time zone 'utc')))::integer as seconds
  from retoma.usage as used
 where used.caller = %(caller)s::text
   and used.day = (now() at time zone 'utc')::date;

-- name: hold
-- Serialises the enqueues of this caller until the transaction ends, so that the count below stays true.
select true as held
  from pg_advisory_xact_lock(hashtextextended(%(caller)s::text, 7368021117));

-- name: waiting
-- How many jobs of a caller wait, counted up to a limit. Ended jobs are deleted from the list on the way, so each is
-- visited once; a running job may come back to the queue, and stays.
with gone as (
    delete from retoma.submissions as submission
     where submission.caller = %(caller)s::text
       and case submission.kind
               when 'job' then not exists (
                   select
                     from retoma.jobs as job
                    where job.id = submission.id
                      and job.state in ('queued', 'running'))
               else not exists (
                   select
                     from retoma.batches as batch
                    where batch.id = submission.id
                      and batch.state not in ('completed', 'failed', 'cancelled'))
           end
), waiting as (
    (select
       from retoma.submissions as submission
       join retoma.jobs as job on job.id = submission.id and job.state = 'queued'
      where submission.caller = %(caller)s::text
        and submission.kind = 'job'
      limit %(most)s::bigint)
    union all
    (select
       from retoma.submissions as submission
       join retoma.jobs as job on job.batch_id = submission.id and job.state = 'queued'
      where submission.caller = %(caller)s::text
        and submission.kind = 'batch'
      limit %(most)s::bigint)
)
select count(*) as jobs
  from waiting;

-- name: submitted
insert into retoma.submissions (caller, kind, id)
select %(caller)s::text, %(kind)s::text, given.id
  from unnest(%(ids)s::bigint[]) as given(id)
on conflict (caller, kind, id) do nothing
returning id;
