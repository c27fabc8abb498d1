-- Classification: prompts, projects, their documents, and one result per document and batch.
--
-- prompts            what a model is told, under a name; the text itself is a version
-- prompt_versions    every text a prompt ever had, by its hash
-- projects           lots of documents, and how they are classified
-- project_documents  the documents of a project; the same content is there once
-- executions         which batch classified which project, and with what
-- classifications    one row per document and execution, there from the start; filled once, by the job that ends well
--
-- Whether a document waits, runs, is done or failed is said by its job and nowhere else. What an execution was made
-- with is in the configuration of its batch; a change of the project afterwards does not touch it.

create table retoma.prompts (
    id               bigint generated always as identity primary key,
    name             text not null,
    description      text,
    document_codes   text,
    sha256           text not null,
    created_at       timestamptz not null default now(),
    updated_at       timestamptz not null default now(),
    archived_at      timestamptz,
    constraint a_prompt_has_a_name check (name <> '')
);

create unique index prompts_by_name on retoma.prompts (name) where archived_at is null;

create table retoma.prompt_versions (
    prompt_id        bigint not null references retoma.prompts on delete cascade,
    sha256           text not null,
    content          text not null,
    created_at       timestamptz not null default now(),
    primary key (prompt_id, sha256),
    constraint a_prompt_says_something check (length(content) >= 10)
);

create table retoma.projects (
    id               bigint generated always as identity primary key,
    name             text not null,
    description      text,
    prompt_id        bigint references retoma.prompts,
    model            text,
    mode             text not null default 'chunk',
    position         text not null default 'end',
    chunk_tokens     integer not null default 512,
    at_once          integer not null default 3,
    max_resumes      integer not null default 3,
    max_retries      integer not null default 2,
    created_at       timestamptz not null default now(),
    updated_at       timestamptz not null default now(),
    archived_at      timestamptz,
    constraint a_project_has_a_name check (name <> ''),
    constraint a_document_is_read_whole_or_in_part check (mode in ('chunk', 'whole')),
    constraint a_part_is_the_end_or_the_start check (position in ('end', 'start')),
    constraint a_part_has_100_to_4000_tokens check (chunk_tokens between 100 and 4000),
    constraint one_to_ten_run_at_once check (at_once between 1 and 10),
    constraint resumes_and_retries_are_not_negative check (max_resumes >= 0 and max_retries >= 0)
);

create table retoma.project_documents (
    id               bigint generated always as identity primary key,
    project_id       bigint not null references retoma.projects on delete cascade,
    code             text not null,
    case_number      text,
    description      text,
    filename         text,
    kind             text,
    sha256           text,
    size             bigint,
    blob             text,
    source           text not null default 'upload',
    created_at       timestamptz not null default now(),
    archived_at      timestamptz,
    constraint one_document_per_code unique (project_id, code),
    constraint the_same_content_is_there_once unique (project_id, sha256),
    constraint a_code_has_1_to_100_characters check (length(code) between 1 and 100),
    constraint a_document_is_uploaded_or_from_a_folder check (source in ('upload', 'folder', 'code')),
    constraint a_file_is_whole check (
        (blob is null) = (sha256 is null) and (blob is null) = (kind is null) and (blob is null) = (size is null))
);

create table retoma.executions (
    batch_id         bigint primary key,
    project_id       bigint not null references retoma.projects,
    settings_hash    text not null,
    created_at       timestamptz not null default now(),
    archived_at      timestamptz
);

create index executions_of_project on retoma.executions (project_id, batch_id);

create table retoma.classifications (
    id               bigint generated always as identity primary key,
    batch_id         bigint not null references retoma.executions on delete cascade,
    document_id      bigint not null references retoma.project_documents,
    project_id       bigint not null,
    job_id           bigint not null,
    code             text not null,
    case_number      text,
    filename         text,
    source           text not null,
    sha256           text,
    settings_hash    text not null,
    category         text,
    subcategory      text,
    confidence       text,
    score            real,
    margin           real,
    justification    text,
    quote            text,
    text_source      text,
    text_tokens      integer,
    tokens           integer,
    cost             numeric,
    chunk_used       text,
    answer           json,
    copied_from      bigint,
    created_at       timestamptz not null default now(),
    processed_at     timestamptz,
    constraint one_result_per_document_and_execution unique (batch_id, document_id),
    constraint one_result_per_job unique (job_id),
    constraint a_confidence_has_a_name check (confidence in ('alta', 'media', 'baixa')),
    constraint a_result_is_whole check (
        (processed_at is null) = (category is null) and (processed_at is null) = (confidence is null))
);

-- What was classified before with the same content and the same settings.
create index classifications_known on retoma.classifications (project_id, sha256, settings_hash)
    where processed_at is not null;
create index classifications_of_document on retoma.classifications (document_id);

-- Last, because it locks a table that is in use.
alter table retoma.executions add constraint executions_batch_id_fkey
    foreign key (batch_id) references retoma.batches on delete cascade;
