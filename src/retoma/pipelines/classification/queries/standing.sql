-- How these things stand, for the audit: as far as anybody may know who may look, and no text.

-- name: prompt
select jsonb_build_object('name', prompt.name, 'sha256', prompt.sha256,
                          'archived_at', prompt.archived_at)::text as fields
  from retoma.prompts as prompt
 where prompt.id = %(id)s::bigint;

-- name: project
select jsonb_build_object('name', project.name, 'prompt', project.prompt_id, 'model', project.model,
                          'mode', project.mode, 'at_once', project.at_once,
                          'max_resumes', project.max_resumes, 'max_retries', project.max_retries,
                          'archived_at', project.archived_at)::text as fields
  from retoma.projects as project
 where project.id = %(id)s::bigint;

-- name: code
select jsonb_build_object('project', code.project_id, 'archived_at', code.archived_at)::text as fields
  from retoma.project_documents as code
 where code.id = %(id)s::bigint;

-- name: example
select json_build_object('label', example.label, 'document', example.document_id, 'decided_by', example.decided_by,
                         'withdrawn_by', example.withdrawn_by)::text as standing
  from classification.examples as example
 where example.id = %(id)s::bigint;
