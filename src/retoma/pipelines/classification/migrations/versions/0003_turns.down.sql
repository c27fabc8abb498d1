alter table classification.document_vectors drop column turn;
