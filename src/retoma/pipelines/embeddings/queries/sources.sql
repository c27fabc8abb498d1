-- Sources: who said a text, version by version. Whoever adds holds the site (texts.hold), so that the statements of an
-- addition see one another's rows and nobody else's in between.

-- name: latest
-- The newest version of each source, as far as it has one. *place* is where it stands in the lists.
select said.place, source.id, source.version, source.content_hash, source.job_id, source.active
  from unnest(%(organisations)s::text[], %(sites)s::text[], %(source_types)s::text[], %(source_ids)s::text[])
       with ordinality as said (organisation, site, source_type, source_id, place)
 cross join lateral (
       select version.id, version.version, version.content_hash, version.job_id, version.active
         from retoma.embedding_sources as version
        where version.organisation = said.organisation
          and version.site = said.site
          and version.source_type = said.source_type
          and version.source_id = said.source_id
          and version.provider = %(provider)s::text
          and version.model = %(model)s::text
        order by version.version desc
        limit 1) as source;

-- name: supersede
-- Before new versions are written: one whose vector is there takes the place of all before it, one that must wait for
-- its vector takes the place only of what waits.
update retoma.embedding_sources as source
   set switched_off_at = now()
  from unnest(%(organisations)s::text[], %(sites)s::text[], %(source_types)s::text[], %(source_ids)s::text[],
              %(stored)s::boolean[]) as said (organisation, site, source_type, source_id, stored)
 where source.organisation = said.organisation
   and source.site = said.site
   and source.source_type = said.source_type
   and source.source_id = said.source_id
   and source.provider = %(provider)s::text
   and source.model = %(model)s::text
   and source.switched_off_at is null
   and (said.stored or source.switched_on_at is null)
returning source.id;

-- name: begin
-- New versions, switched on at once when their vectors are there.
insert into retoma.embedding_sources (organisation, site, source_type, source_id, provider, model, version,
                                      content_hash, language, job_id, correlation_id, switched_on_at)
select said.organisation, said.site, said.source_type, said.source_id, %(provider)s::text, %(model)s::text,
       said.version, said.content_hash, said.language, said.job_id, %(correlation_id)s::text,
       case when said.stored then now() end
  from unnest(%(organisations)s::text[], %(sites)s::text[], %(source_types)s::text[], %(source_ids)s::text[],
              %(versions)s::integer[], %(hashes)s::text[], %(languages)s::text[], %(jobs)s::bigint[],
              %(stored)s::boolean[])
       as said (organisation, site, source_type, source_id, version, content_hash, language, job_id, stored)
returning id;

-- name: assign
-- A version that waits, and whose job was pruned, waits for another one.
update retoma.embedding_sources as source
   set job_id = said.job_id
  from unnest(%(ids)s::bigint[], %(jobs)s::bigint[]) as said (id, job_id)
 where source.id = said.id
   and source.switched_on_at is null
returning source.id;

-- name: switch_off
-- In the transaction that stores a vector: what was found until now, of the sources that waited for it.
update retoma.embedding_sources as source
   set switched_off_at = now()
  from retoma.embedding_sources as waiting
 where waiting.organisation = %(organisation)s::text
   and waiting.site = %(site)s::text
   and waiting.content_hash = %(content_hash)s::text
   and waiting.provider = %(provider)s::text
   and waiting.model = %(model)s::text
   and waiting.switched_on_at is null
   and waiting.switched_off_at is null
   and source.organisation = waiting.organisation
   and source.site = waiting.site
   and source.source_type = waiting.source_type
   and source.source_id = waiting.source_id
   and source.provider = waiting.provider
   and source.model = waiting.model
   and source.switched_on_at is not null
   and source.switched_off_at is null
returning source.id;

-- name: switch_on
-- And after it: those that waited are found from now on. One that a newer version took the place of stays off.
update retoma.embedding_sources as source
   set switched_on_at = now()
 where source.organisation = %(organisation)s::text
   and source.site = %(site)s::text
   and source.content_hash = %(content_hash)s::text
   and source.provider = %(provider)s::text
   and source.model = %(model)s::text
   and source.switched_on_at is null
   and source.switched_off_at is null
returning source.id;

-- name: versions
-- Everything that is known of one source, the newest version of each model first. A version that waits tells how its
-- job stands; the job of one whose vector never came may have been pruned.
select source.provider, source.model, source.version,
       case when source.active then 'active'
            when source.switched_off_at is not null then 'off'
            else coalesce(job.state::text, 'pruned') end as state,
       source.content_hash, embedding.content as text, source.language, source.job_id, source.correlation_id,
       source.created_at, source.switched_on_at, source.switched_off_at
  from retoma.embedding_sources as source
  left join retoma.embeddings as embedding on embedding.organisation = source.organisation
                                          and embedding.site = source.site
                                          and embedding.content_hash = source.content_hash
                                          and embedding.provider = source.provider
                                          and embedding.model = source.model
  left join retoma.jobs as job on job.id = source.job_id
 where source.organisation = %(organisation)s::text
   and source.site = %(site)s::text
   and source.source_type = %(source_type)s::text
   and source.source_id = %(source_id)s::text
 order by source.provider, source.model, source.version desc;

-- name: states
-- How many versions are in which state; those that wait are told apart by the state of their job.
select case when source.active then 'active'
            when source.switched_off_at is not null then 'off'
            else coalesce(job.state::text, 'pruned') end as state,
       count(*) as versions
  from retoma.embedding_sources as source
  left join retoma.jobs as job on job.id = source.job_id and source.switched_on_at is null
 where (%(organisation)s::text is null or source.organisation = %(organisation)s::text)
   and (%(site)s::text is null or source.site = %(site)s::text)
 group by 1
 order by 1;
