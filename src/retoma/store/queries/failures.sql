-- Failures over all batches.

-- name: groups
-- The groups of equal errors that had failures lately which nobody has settled. The scan steps from one fingerprint to the next along the index,
-- and reads a bounded number of the newest failures of each.
with recursive
print (fingerprint, number) as (
    (select
-- include: fingerprint
            as fingerprint, 1
       from retoma.jobs as job
      where job.state = 'failed'
      order by 1
      limit 1)
    union all
    select following.fingerprint, print.number + 1
      from print
     cross join lateral (
           select
-- include: fingerprint
                  as fingerprint
             from retoma.jobs as job
            where job.state = 'failed'
              and
-- include: fingerprint
                  > print.fingerprint
            order by 1
            limit 1) as following
     where print.number < %(groups)s::integer
),
recent as materialized (
    select print.fingerprint, tally.*
      from print
     cross join lateral (
           select count(*)::integer as jobs,
                  count(distinct job.batch_id)::integer as batches,
                  array_agg(distinct job.pipeline) as pipelines,
                  max(job.finished_at) as last_at,
                  (array_agg(job.id order by job.finished_at desc, job.id desc))[1:5] as sample
             from (select job.id, job.batch_id, job.pipeline, job.finished_at
                     from retoma.jobs as job
                    where job.state = 'failed'
                      and
-- include: fingerprint
                          = print.fingerprint
                      and job.finished_at >= now() - make_interval(secs => %(hours)s::float8 * 3600)
                      and not
-- include: discarded
                      and (%(pipeline)s::text is null or job.pipeline = %(pipeline)s::text)
                    order by job.finished_at desc
                    limit %(most)s::integer) as job) as tally
     where tally.jobs > 0
     order by tally.jobs desc, print.fingerprint
     limit %(limit)s::integer
)
select recent.fingerprint, left(split_part(newest.error, E'\n', 1), 300) as example, newest.reason, attempt.step,
       (select call.provider
          from retoma.calls as call
         where call.job_id = newest.id
           and call.state <> 'answered'
         order by call.id desc
         limit 1) as provider,
       recent.pipelines, recent.jobs, recent.batches, oldest.finished_at as first_at, recent.last_at,
       oldest.finished_at >= now() - make_interval(secs => %(hours)s::float8 * 3600) as new,
       recent.sample
  from recent
  join retoma.jobs as newest on newest.id = recent.sample[1]
  left join retoma.attempts as attempt on attempt.job_id = newest.id and attempt.fence = newest.fence
 cross join lateral (
       select job.finished_at
         from retoma.jobs as job
        where job.state = 'failed'
          and
-- include: fingerprint
              = recent.fingerprint
          and (%(pipeline)s::text is null or job.pipeline = %(pipeline)s::text)
        order by job.finished_at
        limit 1) as oldest
 order by recent.jobs desc, recent.fingerprint;
