-- Parts that several statements share.

-- name: document
select document.id, document.number, document.filename, document.kind, document.mime_type, document.size,
       document.sha256, document.blob, document.page_count, document.reader, document.job_id,
       document.uploaded_by, document.correlation_id, processing.status, processing.attempts,
       processing.error_log as error, document.created_at, document.processed_at, processing.updated_at
  from retoma.documents as document
  join retoma.document_processing_jobs as processing on processing.document_id = document.id
