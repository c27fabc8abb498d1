-- Documents: files, what was read from them, and the pieces that are searched.
--
-- documents                 a file that somebody sent, once per content; its job is the one source of its state
-- document_fields           what it says under a name, and how sure that is
-- document_tables           its tables, row by row
-- document_chunks           its text in pieces, each with its pages, its words and its vector
-- loose_blobs               stored files that no row owns: not yet, or not any more
-- document_processing_jobs  the processing of each document in the words of the queue document (a view)
--
-- A vector is an array of numbers whether pgvector is there or not, so the table is the same everywhere; where it is,
-- an index over the same numbers makes the search quick.

create table retoma.documents (
    id               uuid primary key default gen_random_uuid(),
    number           bigint generated always as identity,
    filename         text not null,
    kind             text not null,
    mime_type        text not null,
    size             bigint not null,
    sha256           text not null,
    blob             text not null,
    page_count       integer,
    reader           text,
    job_id           bigint,
    processing_id    uuid not null default gen_random_uuid(),
    attempts         integer not null default 0,
    uploaded_by      text,
    correlation_id   text,
    processed_at     timestamptz,
    created_at       timestamptz not null default now(),
    updated_at       timestamptz not null default now(),
    constraint one_document_per_number unique (number),
    constraint one_document_per_content unique (sha256),
    constraint one_document_per_blob unique (blob),
    constraint a_document_has_content check (size > 0)
);

create index documents_of_job on retoma.documents (job_id);

create table retoma.document_fields (
    document_id      uuid not null references retoma.documents on delete cascade,
    place            integer not null,
    name             text not null,
    value            text not null,
    confidence       real not null,
    page             integer,
    primary key (document_id, place),
    constraint a_confidence_is_a_share check (confidence between 0 and 1)
);

create table retoma.document_tables (
    document_id      uuid not null references retoma.documents on delete cascade,
    place            integer not null,
    page             integer,
    rows             json not null,
    primary key (document_id, place)
);

-- The words are kept as they are written and also without their accents: many people leave those out when they search.
create table retoma.document_chunks (
    document_id      uuid not null references retoma.documents on delete cascade,
    place            integer not null,
    content          text not null,
    section_type     text not null,
    title            text,
    page_start       integer not null,
    page_end         integer not null,
    token_count      integer not null,
    provider         text not null,
    model            text not null,
    dimensions       integer not null,
    vector           real[] not null,
    words            tsvector not null generated always as (
        setweight(to_tsvector('portuguese'::regconfig, coalesce(title, '')), 'A')
        || to_tsvector('portuguese'::regconfig, content)
        || to_tsvector('portuguese'::regconfig,
                       translate(content, 'áàâãäéèêëíìîïóòôõöúùûüçñÁÀÂÃÄÉÈÊËÍÌÎÏÓÒÔÕÖÚÙÛÜÇÑ',
                                          'aaaaaeeeeiiiiooooouuuucnAAAAAEEEEIIIIOOOOOUUUUCN'))) stored,
    primary key (document_id, place),
    constraint a_section_has_a_type check (
        section_type in ('cláusula', 'artigo', 'capítulo', 'seção', 'parágrafo', 'texto_geral')),
    constraint pages_are_in_order check (page_start <= page_end),
    constraint a_vector_has_its_length check (cardinality(vector) = dimensions)
);

create index document_chunks_words on retoma.document_chunks using gin (words);

do $$
begin
    if exists (select from pg_available_extensions where name = 'vector') then
        -- Where every account finds it: for one called retoma the first schema on the path is that of the tables.
        create extension if not exists vector schema public;
    end if;
exception when insufficient_privilege or invalid_schema_name then
    raise notice 'pgvector is there and this account may not create it: vectors are compared one by one';
end $$;

do $$
begin
    if to_regtype('vector') is not null then
        create index document_chunks_near on retoma.document_chunks
            using hnsw ((vector::vector(512)) vector_cosine_ops) where dimensions = 512;
        create index document_chunks_near_wide on retoma.document_chunks
            using hnsw ((vector::vector(1536)) vector_cosine_ops) where dimensions = 1536;
    end if;
end $$;

-- A row is written before the blob is, and goes when somebody owns it; who removes the owner writes it again. What was
-- given up (dropped_at) is deleted first and forgotten afterwards, so that a crash in between leaves a row behind and
-- never a file that nobody knows of.
create table retoma.loose_blobs (
    blob             text primary key,
    since            timestamptz not null default now(),
    dropped_at       timestamptz
);

create index loose_blobs_oldest on retoma.loose_blobs (since);

create view retoma.document_processing_jobs as
select document.processing_id as id,
       document.id as document_id,
       case
           when job.state = 'queued' then 'PENDING'
           when job.state = 'running' then 'PROCESSING'
           when job.state in ('completed', 'skipped') then 'COMPLETED'
           when job.id is null and document.processed_at is not null then 'COMPLETED'
           else 'FAILED'
       end as status,
       coalesce(job.attempt, document.attempts) as attempts,
       case
           when job.id is null and document.processed_at is not null then null
           when job.id is null then 'Its job was pruned before it had completed; process it again.'
           when job.state in ('completed', 'skipped') then null
           when job.state in ('failed', 'review', 'cancelled')
               then coalesce(nullif(split_part(job.error, E'\n\n', 1), ''), job.reason, job.state)
           else nullif(split_part(job.error, E'\n\n', 1), '')
       end as error_log,
       coalesce(job.created_at, document.created_at) as created_at,
       case when job.attempt > 0 then job.claimed_at end as started_at,
       case when job.id is null then document.processed_at else job.finished_at end as completed_at,
       greatest(document.updated_at, job.created_at, job.claimed_at, job.finished_at) as updated_at,
       document.job_id
  from retoma.documents as document
  left join retoma.jobs as job on job.id = document.job_id;
