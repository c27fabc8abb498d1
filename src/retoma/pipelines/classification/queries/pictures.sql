-- What a page of a judged document is drawn from.

-- name: source
-- The file behind a result, and the words that lead to the page. The file is only named while it is the content that was
-- judged: a document that was announced may have got another one since.
select result.id, result.job_id, coalesce(result.filename, result.code) as name, result.quote,
       left(result.chunk_used, 200) as beginning, result.text_source, result.sha256, document.kind,
       case when document.sha256 = result.sha256 then document.blob end as blob
  from retoma.classifications as result
  join retoma.project_documents as document on document.id = result.document_id
 where result.id = %(id)s::bigint
   and result.batch_id = %(batch_id)s::bigint;
