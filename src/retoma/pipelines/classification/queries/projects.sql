-- Projects: lots of documents, and how they are classified.

-- name: create
insert into retoma.projects (name, description, prompt_id, model, mode, position, chunk_tokens, at_once, max_resumes,
                             max_retries)
values (%(name)s::text, %(description)s::text, %(prompt_id)s::bigint, %(model)s::text, %(mode)s::text,
        %(position)s::text, %(chunk_tokens)s::integer, %(at_once)s::integer, %(max_resumes)s::integer,
        %(max_retries)s::integer)
returning id;

-- name: change
-- What is null stays as it was. Executions that are there keep what they were made with.
update retoma.projects as project
   set name = coalesce(%(name)s::text, project.name),
       description = coalesce(%(description)s::text, project.description),
       prompt_id = coalesce(%(prompt_id)s::bigint, project.prompt_id),
       model = coalesce(%(model)s::text, project.model),
       mode = coalesce(%(mode)s::text, project.mode),
       position = coalesce(%(position)s::text, project.position),
       chunk_tokens = coalesce(%(chunk_tokens)s::integer, project.chunk_tokens),
       at_once = coalesce(%(at_once)s::integer, project.at_once),
       max_resumes = coalesce(%(max_resumes)s::integer, project.max_resumes),
       max_retries = coalesce(%(max_retries)s::integer, project.max_retries),
       updated_at = now()
 where project.id = %(id)s::bigint
   and project.archived_at is null
returning project.id;

-- name: one
select project.id, project.name, project.description, project.prompt_id, prompt.name as prompt, project.model,
       project.mode, project.position, project.chunk_tokens, project.at_once, project.max_resumes,
       project.max_retries, counted.documents, project.created_at, project.updated_at, project.archived_at
  from retoma.projects as project
  left join retoma.prompts as prompt on prompt.id = project.prompt_id
 cross join lateral (
       select count(*)::integer as documents
         from retoma.project_documents as document
        where document.project_id = project.id and document.archived_at is null) as counted
 where project.id = %(id)s::bigint;

-- name: page
-- The active ones, newest first; those whose name holds a text, or is it, when one is given.
select project.id, project.name, project.description, project.prompt_id, prompt.name as prompt, project.model,
       project.mode, project.position, project.chunk_tokens, project.at_once, project.max_resumes,
       project.max_retries, counted.documents, project.created_at, project.updated_at, project.archived_at
  from retoma.projects as project
  left join retoma.prompts as prompt on prompt.id = project.prompt_id
 cross join lateral (
       select count(*)::integer as documents
         from retoma.project_documents as document
        where document.project_id = project.id and document.archived_at is null) as counted
 where project.archived_at is null
   and (%(name)s::text is null or project.name = %(name)s::text)
   and (%(search)s::text is null or position(lower(%(search)s::text) in lower(project.name)) > 0)
   and (%(before)s::bigint is null or project.id < %(before)s::bigint)
 order by project.id desc
 limit %(limit)s::integer;

-- name: archive
update retoma.projects as project
   set archived_at = coalesce(project.archived_at, now())
 where project.id = %(id)s::bigint
returning project.id;

-- name: hold
-- Whoever adds documents does so one after the other: the codes that are taken are seen.
select project.id
  from retoma.projects as project
 where project.id = %(id)s::bigint
   and project.archived_at is null
   for no key update;
