-- Chunks by what they mean and by their words. A vector is compared only with those of the same provider and model.

-- name: near
-- The expression and the condition are those of the index document_chunks_near, or it would not be used.
select document_id, place, 1 - (vector::vector(512) <=> %(vector)s::real[]::vector(512)) as score
  from retoma.document_chunks
 where dimensions = 512
   and provider = %(provider)s::text
   and model = %(model)s::text
 order by vector::vector(512) <=> %(vector)s::real[]::vector(512)
 limit %(limit)s::integer;

-- name: near_wide
-- As near, by the index document_chunks_near_wide.
select document_id, place, 1 - (vector::vector(1536) <=> %(vector)s::real[]::vector(1536)) as score
  from retoma.document_chunks
 where dimensions = 1536
   and provider = %(provider)s::text
   and model = %(model)s::text
 order by vector::vector(1536) <=> %(vector)s::real[]::vector(1536)
 limit %(limit)s::integer;

-- name: vectors
-- For where the database cannot compare them: a page at a time, packed, in the order of the primary key.
select document_id, place, array_send(vector) as vector
  from retoma.document_chunks
 where dimensions = %(dimensions)s::integer
   and provider = %(provider)s::text
   and model = %(model)s::text
   and (document_id, place) > (%(after_document)s::uuid, %(after_place)s::integer)
 order by document_id, place
 limit %(limit)s::integer;

-- name: weighed
-- What each word of a question is worth here. Both counts are bounded, so that a word that is everywhere costs no more
-- than a rare one; the planner knows about how many chunks there are.
with whole as (
    select greatest((select count(*) from (select from retoma.document_chunks limit 5000) as first_ones),
                    (select reltuples from pg_class where oid = 'retoma.document_chunks'::regclass))::float8 as chunks
)
select asked.sought, counted.texts, ln(1 + (whole.chunks - counted.texts + 0.5) / (counted.texts + 0.5)) as weight
  from unnest(%(sought)s::text[]) as asked (sought)
 cross join whole
 cross join lateral (
       select count(*) as texts
         from (select
                 from retoma.document_chunks as chunk
                where chunk.words @@ asked.sought::tsquery
                limit 5000) as bounded
       ) as counted;

-- name: by_words
-- The share of the question's weight that a chunk has, and a rank by how often its words stand there. Candidates are
-- found by the rare words, by the index alone, and by all words together, for there may be no rare one. Only the best
-- candidates are looked at themselves.
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
    select chunk.document_id, chunk.place
      from asked
      join retoma.document_chunks as chunk on chunk.words @@ asked.sought
     where asked.texts < 5000
     group by chunk.document_id, chunk.place
     order by sum(asked.weight) desc, chunk.document_id, chunk.place
     limit 4 * %(limit)s::integer
),
complete as (
    select chunk.document_id, chunk.place
      from whole
      join retoma.document_chunks as chunk on chunk.words @@ whole.every
     limit 4 * %(limit)s::integer
)
select chunk.document_id, chunk.place,
       (select sum(asked.weight) from asked where chunk.words @@ asked.sought) / whole.weight as share,
       (select sum(asked.weight * ts_rank(chunk.words, asked.sought, 1)) from asked) / whole.weight as rank
  from (select * from rare union select * from complete) as candidate
  join retoma.document_chunks as chunk using (document_id, place)
 cross join whole
 order by rank desc, chunk.document_id, chunk.place
 limit %(limit)s::integer;

-- name: shown
-- What people see of the chunks that were found: the two sentences with most of the question's weight, in their order;
-- the first two when no word stands there.
with asked as (
    select sought::tsquery as sought, weight
      from unnest(%(sought)s::text[], %(weights)s::float8[]) as word (sought, weight)
),
whole as (
    select string_agg(sought::text, ' | ')::tsquery as any
      from asked
)
select chunk.document_id, chunk.place, document.filename, chunk.page_start, chunk.page_end, chunk.section_type,
       chunk.title, best.snippet
  from unnest(%(documents)s::uuid[], %(places)s::integer[]) as wanted (document_id, place)
  join retoma.document_chunks as chunk on chunk.document_id = wanted.document_id and chunk.place = wanted.place
  join retoma.documents as document on document.id = chunk.document_id
 cross join lateral (
       select coalesce(string_agg(chosen.shown, ' … ' order by chosen.number), '') as snippet
         from (select said.number,
                      case when length(said.sentence) <= 400 or whole.any is null then left(said.sentence, 400)
                           else ts_headline('portuguese', said.sentence, whole.any,
                                            'StartSel="", StopSel="", MaxWords=45, MinWords=25') end as shown
                 from whole
                cross join regexp_split_to_table(left(chunk.content, 20000), '(?<=[.!?…;])\s+|\n\s*\n')
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
       ) as best;
