-- Texts and their vectors: each content once for an organisation, a site, a provider and a model.

-- name: hold
-- Whoever adds texts to a site holds it alone, until the end of the transaction; whoever stores a vector shares it. So
-- a source that is told while its content is being stored sees the vector, or is seen waiting for it, and never falls
-- between the two. Sites are taken in one order, so that nobody waits in a circle.
with sites as materialized (
    select distinct hashtextextended(said.organisation || chr(31) || said.site, 3) as site
      from unnest(%(organisations)s::text[], %(sites)s::text[]) as said (organisation, site)
     order by site
)
select pg_advisory_xact_lock(sites.site) is null as held
  from sites;

-- name: share
-- See hold. Vectors of one site are stored side by side: their sources are not the same ones.
select pg_advisory_xact_lock_shared(
           hashtextextended(%(organisation)s::text || chr(31) || %(site)s::text, 3)) is null as shared;

-- name: known
-- Which of these contents have their vector. *place* is where they stand in the lists.
select said.place, embedding.id, embedding.job_id
  from unnest(%(organisations)s::text[], %(sites)s::text[], %(hashes)s::text[])
       with ordinality as said (organisation, site, content_hash, place)
  join retoma.embeddings as embedding on embedding.organisation = said.organisation
                                     and embedding.site = said.site
                                     and embedding.content_hash = said.content_hash
                                     and embedding.provider = %(provider)s::text
                                     and embedding.model = %(model)s::text;

-- name: store
-- A vector that is there already stays: the same content of the same model has the same one.
insert into retoma.embeddings (organisation, site, content_hash, content, language, provider, model, dimensions,
                               vector, job_id, correlation_id)
values (%(organisation)s::text, %(site)s::text, %(content_hash)s::text, %(content)s::text, %(language)s::text,
        %(provider)s::text, %(model)s::text, cardinality(%(vector)s::real[]), %(vector)s::real[], %(job_id)s::bigint,
        %(correlation_id)s::text)
    on conflict on constraint a_content_is_embedded_once do nothing
returning id;

-- name: near_small
-- By meaning, for vectors of 512 numbers: the index serves the order, and the filters are looked at on the way.
select embedding.id,
       1 - (embedding.vector::vector(512) <=> %(query)s::real[]::vector(512)) as similarity
  from retoma.embeddings as embedding
 where embedding.dimensions = 512
-- include: shown
 order by embedding.vector::vector(512) <=> %(query)s::real[]::vector(512)
 limit %(limit)s::integer;

-- name: near_large
-- The same for vectors of 1536 numbers.
select embedding.id,
       1 - (embedding.vector::vector(1536) <=> %(query)s::real[]::vector(1536)) as similarity
  from retoma.embeddings as embedding
 where embedding.dimensions = 1536
-- include: shown
 order by embedding.vector::vector(1536) <=> %(query)s::real[]::vector(1536)
 limit %(limit)s::integer;

-- name: page
-- The vectors of a site after an id, for who compares them outside the database, a bounded number at a time.
select embedding.id, embedding.vector
  from retoma.embeddings as embedding
 where embedding.dimensions = %(dimensions)s::integer
   and embedding.id > %(after)s::bigint
-- include: shown
 order by embedding.id
 limit %(limit)s::integer;

-- name: worded
-- By their words, in Portuguese: texts with every word first; those with any of them only when that is not enough, for a
-- word that is everywhere would have all texts ranked. What somebody typed is never an error.
with asked as (
    select websearch_to_tsquery('portuguese', %(query)s::text) as every,
           replace(plainto_tsquery('portuguese', %(query)s::text)::text, ' & ', ' | ')::tsquery as any
),
strict as materialized (
    select embedding.id, 1 + ts_rank(embedding.words, asked.every, 1) as score
      from asked
      join retoma.embeddings as embedding on embedding.words @@ asked.every
-- include: shown
     order by score desc, embedding.id
     limit %(limit)s::integer
),
loose as (
    select embedding.id, ts_rank(embedding.words, asked.any, 1) as score
      from asked
      join retoma.embeddings as embedding on embedding.words @@ asked.any
-- include: shown
     where (select count(*) from strict) < %(limit)s::integer
     order by score desc, embedding.id
     limit %(limit)s::integer
)
select found.id, max(found.score)::float8 as score
  from (select * from strict union all select * from loose) as found
 group by found.id
 order by score desc, found.id
 limit %(limit)s::integer;

-- name: told
-- What these texts say where it fits the question, and which sources say it now. One whose last source was switched off
-- since it was found is not among them.
select embedding.id, embedding.content_hash, embedding.language,
       ts_headline('portuguese', left(embedding.content, 20000),
                   replace(plainto_tsquery('portuguese', %(query)s::text)::text, ' & ', ' | ')::tsquery,
                   'StartSel="", StopSel="", MaxWords=40, MinWords=20') as excerpt,
       array_agg(source.source_type order by source.id) as source_types,
       array_agg(source.source_id order by source.id) as source_ids
  from retoma.embeddings as embedding
  join retoma.embedding_sources as source on source.organisation = embedding.organisation
                                         and source.site = embedding.site
                                         and source.content_hash = embedding.content_hash
                                         and source.provider = embedding.provider
                                         and source.model = embedding.model
                                         and source.switched_off_at is null
                                         and source.active
 where embedding.id = any (%(ids)s::bigint[])
 group by embedding.id;

-- name: stored
-- How many vectors there are.
select count(*) as stored
  from retoma.embeddings as embedding
 where (%(organisation)s::text is null or embedding.organisation = %(organisation)s::text)
   and (%(site)s::text is null or embedding.site = %(site)s::text);
