-- Classification: prompts, projects, their documents, and one result per document and batch.
-- Tables of extensions may refer to these; they keep their rows.
drop table retoma.classifications cascade;
drop table retoma.executions cascade;
drop table retoma.project_documents;
drop table retoma.projects;
drop table retoma.prompt_versions;
drop table retoma.prompts;
