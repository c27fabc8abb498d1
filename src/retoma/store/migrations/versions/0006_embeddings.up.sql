-- Embeddings: texts by their content, and what is known under which source.
--
-- A text is embedded once: organisation, site, hash of the content, provider and model name its one row and its one job.
-- Many sources may say the same thing. A source that says something new gets a new version; the version before it is
-- found until the vector of the new one is stored, and is then switched off, not deleted, in the same transaction.

create table retoma.embeddings (
    id bigint generated always as identity primary key,
    organisation text not null,
    site text not null,
    content_hash text not null,
    content text not null,
    language text,
    provider text not null,
    model text not null,
    dimensions integer not null,
    vector real[] not null,
    job_id bigint not null,
    correlation_id text,
    created_at timestamptz not null default now(),
    words tsvector generated always as (to_tsvector('portuguese', content)) stored,
    constraint a_content_is_embedded_once unique (organisation, site, content_hash, provider, model),
    constraint a_vector_has_its_dimensions check (cardinality(vector) = dimensions and dimensions > 0)
);

create index embeddings_by_words on retoma.embeddings using gin (words);

create table retoma.embedding_sources (
    id bigint generated always as identity primary key,
    organisation text not null,
    site text not null,
    source_type text not null,
    source_id text not null,
    provider text not null,
    model text not null,
    version integer not null,
    content_hash text not null,
    language text,
    job_id bigint not null,
    correlation_id text,
    created_at timestamptz not null default now(),
    switched_on_at timestamptz,
    switched_off_at timestamptz,
    active boolean not null generated always as (switched_on_at is not null and switched_off_at is null) stored,
    constraint versions_are_counted unique (organisation, site, source_type, source_id, provider, model, version),
    constraint the_first_version_is_one check (version >= 1)
);

create unique index a_source_has_one_active_version
    on retoma.embedding_sources (organisation, site, source_type, source_id, provider, model)
 where switched_on_at is not null and switched_off_at is null;

create unique index a_source_waits_for_one_version
    on retoma.embedding_sources (organisation, site, source_type, source_id, provider, model)
 where switched_on_at is null and switched_off_at is null;

-- Who waits for a content, and who shows it: neither has to read what was switched off.
create index embedding_sources_by_content
    on retoma.embedding_sources (organisation, site, content_hash, provider, model)
 where switched_off_at is null;

-- Vectors are plain arrays everywhere. Where pgvector is, the usual lengths have an index as well.
do $$
begin
    if to_regtype('vector') is not null and exists (select from pg_am as method where method.amname = 'hnsw') then
        execute 'create index embeddings_by_meaning_512 on retoma.embeddings
                  using hnsw ((vector::vector(512)) vector_cosine_ops) where dimensions = 512';
        execute 'create index embeddings_by_meaning_1536 on retoma.embeddings
                  using hnsw ((vector::vector(1536)) vector_cosine_ops) where dimensions = 1536';
    end if;
end
$$;
