drop table classification.changes;
drop table classification.findings;
drop table classification.document_vectors;
