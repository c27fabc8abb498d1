-- Reports of batches that workers write.

-- name: put
-- In the transaction that queues the job.
insert into quotes.report_jobs (batch_id, job_id, closing, asked_by)
values (%(batch_id)s::bigint, %(job_id)s::bigint, %(closing)s::boolean, %(by)s::text)
on conflict (job_id) do nothing
returning id;

-- name: page
select made.id, made.batch_id, made.job_id, made.closing, made.asked_by, made.asked_at, made.parts, made.parts_done,
       made.ready_at, made.report_id, made.pdf_blob, made.pdf_bytes, made.xlsx_blob, made.xlsx_bytes, made.sha256,
       job.state as job_state, job.error
  from quotes.report_jobs as made
  left join retoma.jobs as job on job.id = made.job_id
 where made.batch_id = %(batch_id)s::bigint
   and (not %(only_ready)s::boolean or made.ready_at is not null)
 order by made.id desc
 limit %(limit)s::integer;

-- name: closing
-- Whether a report of the batch is being closed by a job that may still end well.
select made.id
  from quotes.report_jobs as made
  join retoma.jobs as job on job.id = made.job_id
 where made.batch_id = %(batch_id)s::bigint
   and made.closing
   and made.ready_at is null
   and made.parts is not null
   and job.state in ('queued', 'running');

-- name: begin
update quotes.report_jobs as made
   set parts = %(parts)s::integer
 where made.job_id = %(job_id)s::bigint
returning made.id;

-- name: advance
update quotes.report_jobs as made
   set parts_done = %(done)s::integer
 where made.job_id = %(job_id)s::bigint
returning made.id;

-- name: finish
update quotes.report_jobs as made
   set ready_at = now(),
       parts_done = made.parts,
       report_id = %(report_id)s::bigint,
       pdf_blob = %(pdf_blob)s::text,
       pdf_bytes = %(pdf_bytes)s::bigint,
       xlsx_blob = %(xlsx_blob)s::text,
       xlsx_bytes = %(xlsx_bytes)s::bigint,
       sha256 = %(sha256)s::text
 where made.job_id = %(job_id)s::bigint
returning made.id;
