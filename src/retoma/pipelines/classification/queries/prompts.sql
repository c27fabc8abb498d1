-- Prompts: what a model is told. A text is never changed: another text is another version, and the old one stays.

-- name: create
-- Nothing comes back when an active prompt of that name is there.
with new as (
    insert into retoma.prompts (name, description, document_codes, sha256)
    values (%(name)s::text, %(description)s::text, %(document_codes)s::text, %(sha)s::text)
    on conflict (name) where archived_at is null do nothing
    returning id
),
version as (
    insert into retoma.prompt_versions (prompt_id, sha256, content)
    select new.id, %(sha)s::text, %(content)s::text from new
)
select new.id from new;

-- name: change
-- What is null stays as it was. A text that was there before is used again, not kept twice.
with changed as (
    update retoma.prompts as prompt
       set name = coalesce(%(name)s::text, prompt.name),
           description = coalesce(%(description)s::text, prompt.description),
           document_codes = coalesce(%(document_codes)s::text, prompt.document_codes),
           sha256 = coalesce(%(sha)s::text, prompt.sha256),
           updated_at = now()
     where prompt.id = %(id)s::bigint
       and prompt.archived_at is null
    returning prompt.id
),
version as (
    insert into retoma.prompt_versions (prompt_id, sha256, content)
    select changed.id, %(sha)s::text, %(content)s::text from changed where %(sha)s::text is not null
    on conflict (prompt_id, sha256) do nothing
)
select changed.id from changed;

-- name: one
select prompt.id, prompt.name, prompt.description, prompt.document_codes, version.content, prompt.sha256,
       prompt.created_at, prompt.updated_at, prompt.archived_at
  from retoma.prompts as prompt
  join retoma.prompt_versions as version on version.prompt_id = prompt.id and version.sha256 = prompt.sha256
 where prompt.id = %(id)s::bigint;

-- name: page
-- The active ones by name; one of them when its name is given.
select prompt.id, prompt.name, prompt.description, prompt.document_codes, version.content, prompt.sha256,
       prompt.created_at, prompt.updated_at, prompt.archived_at
  from retoma.prompts as prompt
  join retoma.prompt_versions as version on version.prompt_id = prompt.id and version.sha256 = prompt.sha256
 where prompt.archived_at is null
   and (%(name)s::text is null or prompt.name = %(name)s::text)
 order by prompt.name
 limit 1000;

-- name: archive
-- Executions keep the text they were made with; projects that name it must be given another before they start again.
update retoma.prompts as prompt
   set archived_at = coalesce(prompt.archived_at, now())
 where prompt.id = %(id)s::bigint
returning prompt.id;

-- name: hold
-- Whoever changes it for what it was goes alone.
select prompt.id
  from retoma.prompts as prompt
 where prompt.id = %(id)s::bigint
   for no key update;

-- name: versions
select version.sha256, version.content, version.created_at
  from retoma.prompt_versions as version
 where version.prompt_id = %(id)s::bigint
 order by version.created_at, version.sha256;
