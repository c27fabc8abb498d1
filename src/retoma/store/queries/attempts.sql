-- How each claim ended: a history that a later success does not erase.

-- name: of
select attempt.job_id, attempt.fence, attempt.attempt, attempt.worker_id, worker.label as worker, attempt.ending,
       attempt.reason, attempt.error, attempt.step, attempt.signal, attempt.peak_megabytes, attempt.claimed_at,
       attempt.ended_at, attempt.seconds
  from retoma.attempts as attempt
  left join retoma.workers as worker on worker.id = attempt.worker_id
 where attempt.job_id = %(job_id)s::bigint
 order by attempt.fence;
