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

-- name: by_words
-- Chunks with every word first; those with any of them only when that is not enough, for a word that is everywhere
-- would have all chunks ranked.
with asked as (
    select plainto_tsquery('portuguese', %(text)s::text) as every,
           replace(plainto_tsquery('portuguese', %(text)s::text)::text, ' & ', ' | ')::tsquery as any
),
strict as materialized (
    select chunk.document_id, chunk.place, 1 + ts_rank(chunk.words, asked.every, 1) as rank
      from asked
      join retoma.document_chunks as chunk on chunk.words @@ asked.every
     order by rank desc, chunk.document_id, chunk.place
     limit %(limit)s::integer
),
loose as (
    select chunk.document_id, chunk.place, ts_rank(chunk.words, asked.any, 1) as rank
      from asked
      join retoma.document_chunks as chunk on chunk.words @@ asked.any
     where (select count(*) from strict) < %(limit)s::integer
     order by rank desc, chunk.document_id, chunk.place
     limit %(limit)s::integer
)
select document_id, place, max(rank)::float8 as score
  from (select * from strict union all select * from loose) as found
 group by document_id, place
 order by score desc, document_id, place
 limit %(limit)s::integer;

-- name: shown
-- What people see of the chunks that were found: the two sentences with most of the words, in their order; the first two
-- when no word stands there.
with asked as (
    select replace(plainto_tsquery('portuguese', %(text)s::text)::text, ' & ', ' | ')::tsquery as any
)
select chunk.document_id, chunk.place, document.filename, chunk.page_start, chunk.page_end, chunk.section_type,
       chunk.title, best.snippet
  from unnest(%(documents)s::uuid[], %(places)s::integer[]) as wanted (document_id, place)
  join retoma.document_chunks as chunk on chunk.document_id = wanted.document_id and chunk.place = wanted.place
  join retoma.documents as document on document.id = chunk.document_id
 cross join lateral (
       select coalesce(string_agg(chosen.shown, ' … ' order by chosen.number), '') as snippet
         from (select said.number,
                      case when length(said.sentence) <= 400 then said.sentence
                           else ts_headline('portuguese', said.sentence, asked.any,
                                            'StartSel="", StopSel="", MaxWords=45, MinWords=25') end as shown
                 from asked
                cross join regexp_split_to_table(left(chunk.content, 20000), '(?<=[.!?…;])\s+|\n\s*\n')
                           with ordinality as said (sentence, number)
                where said.sentence ~ '\w'
                order by ts_rank(to_tsvector('portuguese', said.sentence), asked.any) desc, said.number
                limit 2) as chosen
       ) as best;
