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

-- name: weighed
-- What each word of a question is worth among all texts. Both counts are bounded, so that a word that is everywhere costs
-- no more than a rare one; the planner knows about how many texts there are.
with whole as (
    select greatest((select count(*) from (select from retoma.embeddings limit 5000) as first_ones),
                    (select reltuples from pg_class where oid = 'retoma.embeddings'::regclass))::float8 as texts
)
select asked.sought, counted.texts, ln(1 + (whole.texts - counted.texts + 0.5) / (counted.texts + 0.5)) as weight
  from unnest(%(sought)s::text[]) as asked (sought)
 cross join whole
 cross join lateral (
       select count(*) as texts
         from (select
                 from retoma.embeddings as embedding
                where embedding.words @@ asked.sought::tsquery
                limit 5000) as bounded
       ) as counted;

-- name: worded
-- The share of the question's weight that a text has, and a rank by how often its words stand there. Candidates are
-- found by the rare words, and by all words together, for there may be no rare one. Only the best candidates are looked
-- at themselves.
with asked as (
    select sought::tsquery as sought, texts, weight
      from unnest(%(sought)s::text[], %(texts)s::integer[], %(weights)s::float8[]) as word (sought, texts, weight)
),
whole as (
    select string_agg('(' || sought::text || ')', ' & ')::tsquery as every,
           sum(weight) as weight
      from asked
),
rare as (
    select embedding.id
      from asked
      join retoma.embeddings as embedding on embedding.words @@ asked.sought
-- include: shown
     where asked.texts < 5000
     group by embedding.id
     order by sum(asked.weight) desc, embedding.id
     limit 4 * %(limit)s::integer
),
complete as (
    select embedding.id
      from whole
      join retoma.embeddings as embedding on embedding.words @@ whole.every
-- include: shown
     limit 4 * %(limit)s::integer
)
select embedding.id,
       (select sum(asked.weight) from asked where embedding.words @@ asked.sought) / whole.weight as share,
       (select sum(asked.weight * ts_rank(embedding.words, asked.sought, 1)) from asked) / whole.weight as rank
  from (select * from rare union select * from complete) as candidate
  join retoma.embeddings as embedding using (id)
 cross join whole
 order by rank desc, embedding.id
 limit %(limit)s::integer;

-- name: told
-- What these texts say where it fits the question, and which sources say it now: the two sentences with most of the
-- question's weight, in their order; the first two when no word stands there. A text whose last source was switched off
-- since it was found is not among them.
with asked as (
    select sought::tsquery as sought, weight
      from unnest(%(sought)s::text[], %(weights)s::float8[]) as word (sought, weight)
),
whole as (
    select string_agg(sought::text, ' | ')::tsquery as any
      from asked
)
select embedding.id, embedding.content_hash, embedding.language, best.excerpt, saying.source_types, saying.source_ids
  from retoma.embeddings as embedding
 cross join lateral (
       select coalesce(string_agg(chosen.shown, ' … ' order by chosen.number), '') as excerpt
         from (select said.number,
                      case when length(said.sentence) <= 400 or whole.any is null then left(said.sentence, 400)
                           else ts_headline('portuguese', said.sentence, whole.any,
                                            'StartSel="", StopSel="", MaxWords=45, MinWords=25') end as shown
                 from whole
                cross join regexp_split_to_table(left(embedding.content, 20000), '(?<=[.!?…;])\s+|\n\s*\n')
                           with ordinality as said (sentence, number)
                cross join lateral (
                      select to_tsvector('portuguese', said.sentence)
                             || to_tsvector('portuguese',
                                            translate(said.sentence,
                                                      'áàâãäéèêëíìîïóòôõöúùûüçñÁÀÂÃÄÉÈÊËÍÌÎÏÓÒÔÕÖÚÙÛÜÇÑ',
                                                      'aaaaaeeeeiiiiooooouuuucnAAAAAEEEEIIIIOOOOOUUUUCN')) as words
                      ) as read
                where said.sentence ~ '\w'
                order by (select sum(asked.weight) from asked where read.words @@ asked.sought) desc nulls last,
                         said.number
                limit 2) as chosen
       ) as best
 cross join lateral (
       select array_agg(source.source_type order by source.id) as source_types,
              array_agg(source.source_id order by source.id) as source_ids
         from retoma.embedding_sources as source
        where source.organisation = embedding.organisation
          and source.site = embedding.site
          and source.content_hash = embedding.content_hash
          and source.provider = embedding.provider
          and source.model = embedding.model
          and source.switched_off_at is null
          and source.active
       ) as saying
 where embedding.id = any (%(ids)s::bigint[])
   and saying.source_ids is not null;

-- name: stored
-- How many vectors there are.
select count(*) as stored
  from retoma.embeddings as embedding
 where (%(organisation)s::text is null or embedding.organisation = %(organisation)s::text)
   and (%(site)s::text is null or embedding.site = %(site)s::text);
