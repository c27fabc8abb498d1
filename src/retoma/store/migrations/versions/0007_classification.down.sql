-- Classification: prompts, projects, their documents, and one result per document and batch.
drop table retoma.classifications;
drop table retoma.executions;
drop table retoma.project_documents;
drop table retoma.projects;
drop table retoma.prompt_versions;
drop table retoma.prompts;
