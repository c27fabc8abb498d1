drop table retoma.embedding_sources;
drop table retoma.embeddings;
