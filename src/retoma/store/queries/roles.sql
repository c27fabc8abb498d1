-- Privileges in this database. Only the catalogue is read.

-- name: database
-- The database, the account that is connected, and the privileges of PUBLIC.
select current_database() as name,
       pg_get_userbyid(database.datdba) as owner,
       current_user::text as account,
       (select role.rolsuper from pg_roles as role where role.rolname = current_user) as superuser,
       exists (select
                 from aclexplode(coalesce(database.datacl, acldefault('d', database.datdba))) as right_of
                where right_of.grantee = 0) as open_to_all,
       exists (select
                 from pg_namespace as schema
                cross join lateral aclexplode(coalesce(schema.nspacl, acldefault('n', schema.nspowner))) as right_of
                where schema.nspname = 'public'
                  and right_of.grantee = 0
                  and right_of.privilege_type = 'CREATE') as open_schema,
       exists (select from pg_available_extensions as extension where extension.name = 'vector')
           and not exists (select from pg_extension as extension where extension.extname = 'vector') as lacks_vector,
       obj_description(to_regnamespace('retoma'), 'pg_namespace') as note,
       coalesce(has_schema_privilege(to_regnamespace('retoma'), 'usage'), false) as enters,
       coalesce((select bool_and(pg_has_role(relation.relowner, 'usage'))
                   from pg_class as relation
                  where relation.relnamespace = to_regnamespace('retoma')
                    and relation.relkind = 'r'), false) as owns
  from pg_database as database
 where database.datname = current_database();

-- name: named
-- The existing roles among these names, and their privileges beyond the grants in this database.
select role.rolname as name,
       array_remove(array[case when role.rolsuper then 'superuser' end,
                          case when role.rolcreaterole then 'createrole' end,
                          case when role.rolcreatedb then 'createdb' end,
                          case when role.rolreplication then 'replication' end,
                          case when role.rolbypassrls then 'bypassrls' end], null)
           || array(select 'member of ' || pg_get_userbyid(member.roleid)
                      from pg_auth_members as member
                     where member.member = role.oid
                     order by 1) as beyond,
       has_database_privilege(role.oid, current_database(), 'connect') as connects,
       has_database_privilege(role.oid, current_database(), 'create') as creates
  from pg_roles as role
 where role.rolname = any (%(names)s::name[]);

-- name: objects
-- Every object with an owner in the named schemas, or in all except those of PostgreSQL itself. Objects that belong to
-- a table are left out, because they follow their table, and so are objects of extensions.
with wanted as (
    select schema.oid, schema.nspowner
      from pg_namespace as schema
     where case when %(schemas)s::name[] is null
                then schema.nspname !~ '^pg_' and schema.nspname <> 'information_schema'
                else schema.nspname = any (%(schemas)s::name[]) end
),
found as (
    select 'pg_namespace'::regclass as class, wanted.oid, wanted.nspowner as owner
      from wanted
     where wanted.nspowner <> 'pg_database_owner'::regrole
     union all
    select 'pg_class'::regclass, relation.oid, relation.relowner
      from wanted
      join pg_class as relation on relation.relnamespace = wanted.oid
     where relation.relkind in ('r', 'p', 'v', 'm', 'f')
        or relation.relkind = 'S'
           and not exists (select
                             from pg_depend as depends
                            where depends.classid = 'pg_class'::regclass
                              and depends.objid = relation.oid
                              and depends.refclassid = 'pg_class'::regclass
                              and depends.deptype in ('a', 'i'))
     union all
    select 'pg_proc'::regclass, routine.oid, routine.proowner
      from wanted
      join pg_proc as routine on routine.pronamespace = wanted.oid
     union all
    select 'pg_type'::regclass, type.oid, type.typowner
      from wanted
      join pg_type as type on type.typnamespace = wanted.oid
      left join pg_class as relation on relation.oid = type.typrelid
     where type.typtype in ('d', 'e', 'r')
        or relation.relkind = 'c'
     union all
    select 'pg_largeobject'::regclass, large.oid, large.lomowner
      from pg_largeobject_metadata as large
     where %(schemas)s::name[] is null
)
select object.type as kind, object.identity, pg_get_userbyid(found.owner) as owner
  from found
 cross join lateral pg_identify_object(found.class, found.oid, 0) as object
 where not exists (select
                     from pg_depend as depends
                    where depends.classid = found.class
                      and depends.objid = found.oid
                      and depends.deptype = 'e')
 order by object.type, object.identity;

-- name: relations
-- The tables, views and sequences of a schema, with their columns.
select relation.relname as name,
       relation.relkind = 'S' as sequence,
       array(select attribute.attname::text
               from pg_attribute as attribute
              where attribute.attrelid = relation.oid
                and attribute.attnum > 0
                and not attribute.attisdropped) as columns
  from pg_class as relation
 where relation.relnamespace = to_regnamespace(%(schema)s::text)
   and relation.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
 order by relation.relname;

-- name: held
-- The privileges of the connected account on each of them: on the whole, and on single columns beyond that.
select relation.relname as name,
       array(select named.word
               from unnest(array['select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger'])
                    as named (word)
              where relation.relkind <> 'S'
                and has_table_privilege(relation.oid, named.word)
              union all
             select named.word
               from unnest(array['usage', 'select', 'update']) as named (word)
              where relation.relkind = 'S'
                and has_sequence_privilege(relation.oid, named.word)) as whole,
       array(select named.word || ' ' || attribute.attname
               from pg_attribute as attribute
              cross join unnest(array['select', 'insert', 'update', 'references']) as named (word)
              where attribute.attrelid = relation.oid
                and attribute.attnum > 0
                and not attribute.attisdropped
                and relation.relkind <> 'S'
                and has_column_privilege(relation.oid, attribute.attnum, named.word)
                and not has_table_privilege(relation.oid, named.word)) as single
  from pg_class as relation
 where relation.relnamespace = to_regnamespace('retoma')
   and relation.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
 order by relation.relname;
