-- What people taught a project, and what its executions made of it.
--
-- examples     a document of which a person said the kind; it belongs to the project and outlives the execution
-- refinements  an execution that was gone through again, with what was taught by then, and what changed
--
-- An example is never changed. A decision that is undone withdraws it; a later decision replaces it, and comes back
-- out when it is undone itself.

create table classification.examples (
    id           bigint generated always as identity primary key,
    project_id   bigint not null,
    document_id  bigint not null,
    batch_id     bigint,
    result_id    bigint,
    sha256       text,
    text_sha256  text,
    excerpt      text,
    label        text not null,
    proposed     text,
    source       text not null,
    decided_by   text not null,
    decided_at   timestamptz not null default now(),
    replaces     bigint references classification.examples,
    replaced_at  timestamptz,
    withdrawn_by text,
    withdrawn_at timestamptz,
    constraint a_label_has_1_to_403_characters check (length(label) between 1 and 403),
    constraint an_example_comes_from_somewhere check (source in ('review', 'page', 'file', 'api'))
);

create unique index one_example_stands_per_document on classification.examples (project_id, document_id)
    where withdrawn_at is null and replaced_at is null;
create index examples_of_result on classification.examples (result_id)
    where withdrawn_at is null and replaced_at is null;

create table classification.refinements (
    id           bigint generated always as identity primary key,
    batch_id     bigint not null,
    project_id   bigint not null,
    job_id       bigint not null unique,
    asked_by     text not null,
    asked_at     timestamptz not null default now(),
    examples     integer,
    total        integer,
    changed      integer,
    gain         json,
    finished_at  timestamptz,
    constraint a_refinement_is_whole check (
        (finished_at is null) = (changed is null) and (finished_at is null) = (gain is null)
        and (finished_at is null) = (examples is null) and (finished_at is null) = (total is null))
);

create index refinements_of_batch on classification.refinements (batch_id, id);

-- The vector of a text, by the text's hash and the model that made it: 32-bit numbers, one after the other. Whoever
-- needs it again finds it, also when the execution that read the text is gone.
create table classification.vectors (
    text_sha256  text not null,
    model        text not null,
    vector       bytea not null,
    primary key (text_sha256, model)
);
