-- Embeddings: texts by their content, and what is known under which source.
select 1;
