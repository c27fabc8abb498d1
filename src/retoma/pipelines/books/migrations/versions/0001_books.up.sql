-- Books: what was sent, the chapters found in it, and a checkpoint for each chapter that is done. A checkpoint is never
-- changed and never deleted while its session is there: one that turns out to be invalid is marked, and another is added.

create table books.inputs (
    sha256     text primary key,
    filename   text not null,
    kind       text not null,
    size       bigint not null,
    blob       text not null unique,
    created_at timestamptz not null default now()
);

create table books.sessions (
    id                 text primary key,
    number             bigint generated always as identity unique,
    title              text not null,
    input_sha256       text references books.inputs,
    configuration      text not null,
    configuration_hash text not null,
    job_id             bigint,
    runs               integer not null default 0,
    detector           text,
    left_out           text not null default '[]',
    doubts             text not null default '[]',
    pages              integer,
    reader             text,
    planned_at         timestamptz,
    approved_at        timestamptz,
    started_at         timestamptz not null default now(),
    finished_at        timestamptz,
    correlation_id     text,
    created_by         text,
    created_at         timestamptz not null default now(),
    updated_at         timestamptz not null default now(),
    unique (input_sha256, configuration_hash)
);

create table books.chapters (
    session_id  text not null references books.sessions on delete cascade,
    place       integer not null,
    number      text not null,
    title       text not null,
    content     text not null,
    words       integer not null,
    pages       integer[] not null,
    page_starts text not null default '[]',
    sha256      text not null,
    primary key (session_id, place),
    unique (session_id, number)
);

create table books.checkpoints (
    id                 bigint generated always as identity primary key,
    session_id         text not null references books.sessions on delete cascade,
    chapter_number     text not null,
    version            integer not null,
    body               bytea not null,
    origin             text not null check (origin in ('run', 'import', 'reuse')),
    source             text,
    verdict            text not null check (verdict in ('valid', 'invalid')),
    reason             text,
    message            text,
    chapter_sha256     text,
    configuration_hash text,
    total_chunks       integer not null default 0,
    processed_chunks   integer not null default 0,
    words              integer not null default 0,
    summary_words      integer not null default 0,
    passed             boolean,
    saved_at           timestamptz,
    created_at         timestamptz not null default now(),
    judged_at          timestamptz not null default now(),
    unique (session_id, chapter_number, version),
    check ((verdict = 'invalid') = (reason is not null))
);

-- A chapter is done once.
create unique index checkpoints_valid on books.checkpoints (session_id, chapter_number) where verdict = 'valid';
create index checkpoints_same_text on books.checkpoints (chapter_sha256, configuration_hash) where verdict = 'valid';

create table books.feedback (
    id             bigint generated always as identity primary key,
    session_id     text not null references books.sessions on delete cascade,
    kind           text not null check (kind in ('question', 'error', 'suggestion', 'praise')),
    message        text not null,
    chapter_number text,
    created_by     text,
    created_at     timestamptz not null default now(),
    answer         text,
    answered_by    text,
    answered_at    timestamptz
);

create index feedback_session on books.feedback (session_id, id);
