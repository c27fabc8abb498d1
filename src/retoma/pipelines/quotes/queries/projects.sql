-- Projects, and the versions of their configuration.

-- name: create
insert into quotes.projects (name)
values (%(name)s::text)
on conflict (name) where archived_at is null do nothing
returning id;

-- name: page
select project.id, project.name, configuration.id as config_version_id, configuration.version, configuration.terms,
       project.created_at, configuration.created_at as changed_at, configuration.created_by as changed_by
  from quotes.projects as project
  join lateral (
       select each.* from quotes.configurations as each
        where each.project_id = project.id order by each.version desc limit 1) as configuration on true
 where project.archived_at is null
   and (%(id)s::bigint is null or project.id = %(id)s::bigint)
   and (%(name)s::text is null or project.name = %(name)s::text)
 order by project.id desc
 limit %(limit)s::integer;

-- name: hold
-- Whoever changes the configuration does so one after the other: versions have no gaps.
select project.id
  from quotes.projects as project
 where project.id = %(id)s::bigint and project.archived_at is null
   for no key update;

-- name: configure
insert into quotes.configurations (project_id, version, terms, created_by)
select %(project_id)s::bigint, 1 + coalesce(max(before.version), 0), %(terms)s::json, %(by)s::text
  from quotes.configurations as before
 where before.project_id = %(project_id)s::bigint
returning id;

-- name: versions
select configuration.id, configuration.version, configuration.terms, configuration.created_at, configuration.created_by
  from quotes.configurations as configuration
 where configuration.project_id = %(project_id)s::bigint
   and (%(id)s::bigint is null or configuration.id = %(id)s::bigint)
 order by configuration.version desc;
