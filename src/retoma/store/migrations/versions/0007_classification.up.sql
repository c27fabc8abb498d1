-- Classification: prompts, projects, their documents, and one result per document and batch.
select 1;
