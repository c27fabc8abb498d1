-- Documents: files, what was read from them, and the pieces that are searched. The extension stays: others may use it.
drop view retoma.document_processing_jobs;
drop table retoma.loose_blobs;
drop table retoma.document_chunks;
drop table retoma.document_tables;
drop table retoma.document_fields;
drop table retoma.documents;
