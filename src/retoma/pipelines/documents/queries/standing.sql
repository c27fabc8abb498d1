-- How a document stands, for the audit: as far as anybody may know who may look, and no text.

-- name: document
select jsonb_build_object('size', document.size, 'sha256', document.sha256, 'attempts', document.attempts,
                          'job', document.job_id)::text as fields
  from retoma.documents as document
 where document.id = %(id)s::uuid;
