-- When a person is asked about a result in doubt: the lowest first. It is the lowest margin of the batch for the document
-- whose answer teaches most, and grows to 1; null where nothing has been compared.
alter table classification.document_vectors add column turn real;
