-- What the database can do with vectors. It reads the catalogue alone.

-- name: extension
-- The version of pgvector, when it is made here and its type can be named: an extension that lives in a schema outside
-- the search path is as good as none. *indexed* says whether any table of ours has its HNSW index.
select extension.extversion as version,
       exists (select
                 from pg_index as index
                 join pg_class as named on named.oid = index.indexrelid
                 join pg_am as method on method.oid = named.relam
                 join pg_namespace as schema on schema.oid = named.relnamespace
                where schema.nspname = 'retoma' and method.amname = 'hnsw') as indexed
  from pg_extension as extension
 where extension.extname = 'vector'
   and to_regtype('vector') is not null;

-- name: look_further
-- For the rest of the transaction: an HNSW index goes on until as many rows fit the filter as were asked for. Without
-- this a small site inside a large table would find next to nothing. pgvector before 0.8 refuses the name. And it looks
-- at five times as many neighbours as it would by itself: among 100,000 pieces it finds 85 of the 100 nearest then, not
-- 52, in little more time.
select set_config('hnsw.iterative_scan', 'strict_order', true) as mode
  from set_config('hnsw.ef_search', '200', true) as neighbours;
