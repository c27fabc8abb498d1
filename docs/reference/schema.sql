-- Every table, view and function of the schema retoma. docs/reference/tables.md explains the columns.
-- Made by tools/schema.py from a database at revision 0050; change a migration, then: make schema

create table retoma.alembic_version (
    version_num character varying(32) not null,
    constraint alembic_version_pkc PRIMARY KEY (version_num)
);

create table retoma.alert_deliveries (
    alert_id bigint not null,
    channel text not null,
    what text not null,
    tries integer default 0 not null,
    due_at timestamp with time zone default now() not null,
    sent_at timestamp with time zone,
    error text,
    constraint alert_deliveries_pkey PRIMARY KEY (alert_id, channel, what),
    constraint alert_deliveries_alert_id_fkey FOREIGN KEY (alert_id) REFERENCES retoma.alerts(id) ON DELETE CASCADE,
    constraint a_channel_is_known CHECK ((channel = ANY (ARRAY['webhook'::text, 'email'::text]))),
    constraint what_is_told_is_known CHECK ((what = ANY (ARRAY['opened'::text, 'resolved'::text])))
);
CREATE INDEX alert_deliveries_due ON retoma.alert_deliveries USING btree (due_at) WHERE (sent_at IS NULL);

create table retoma.alerts (
    id bigint generated always as identity not null,
    rule text not null,
    subject text not null,
    severity text not null,
    facts jsonb default '{}'::jsonb not null,
    opened_at timestamp with time zone default now() not null,
    seen_at timestamp with time zone default now() not null,
    acknowledged_at timestamp with time zone,
    acknowledged_by text,
    note text,
    resolved_at timestamp with time zone,
    constraint alerts_pkey PRIMARY KEY (id),
    constraint a_severity_is_known CHECK ((severity = ANY (ARRAY['info'::text, 'warning'::text, 'critical'::text]))),
    constraint who_acknowledged_is_known CHECK (((acknowledged_at IS NULL) = (acknowledged_by IS NULL)))
);
CREATE UNIQUE INDEX alerts_open ON retoma.alerts USING btree (rule, subject) WHERE (resolved_at IS NULL);
CREATE INDEX alerts_resolved ON retoma.alerts USING btree (resolved_at) WHERE (resolved_at IS NOT NULL);

create table retoma.api_keys (
    id text not null,
    name text not null,
    secret_hash bytea not null,
    scopes text[] not null,
    pipelines text[],
    created_at timestamp with time zone default now() not null,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    last_used_at timestamp with time zone,
    previous_hash bytea,
    previous_until timestamp with time zone,
    rotated_at timestamp with time zone,
    constraint api_keys_pkey PRIMARY KEY (id)
);

create table retoma.attempts (
    job_id bigint not null,
    fence bigint not null,
    attempt integer not null,
    worker_id bigint not null,
    ending text not null,
    reason text,
    error text,
    step text,
    signal smallint,
    peak_megabytes real,
    claimed_at timestamp with time zone not null,
    ended_at timestamp with time zone default now() not null,
    seconds real,
    constraint attempts_pkey PRIMARY KEY (job_id, fence)
);

create table retoma.audit (
    id bigint generated always as identity not null,
    at timestamp with time zone default now() not null,
    who text not null,
    name text,
    via text not null,
    address text,
    route text not null,
    action text not null,
    object_kind text,
    object_id text,
    before jsonb,
    after jsonb,
    correlation_id text,
    outcome text not null,
    times integer default 1 not null,
    constraint audit_pkey PRIMARY KEY (id),
    constraint a_row_of_the_audit_came_one_of_two_ways CHECK ((via = ANY (ARRAY['http'::text, 'cli'::text]))),
    constraint an_outcome_is_known CHECK ((outcome = ANY (ARRAY['begun'::text, 'done'::text, 'failed'::text, 'looked'::text, 'refused'::text])))
);
CREATE INDEX audit_by_action ON retoma.audit USING btree (action, id);
CREATE INDEX audit_by_age ON retoma.audit USING btree (at);
CREATE INDEX audit_by_object ON retoma.audit USING btree (object_kind, object_id, id) WHERE (object_kind IS NOT NULL);
CREATE INDEX audit_by_who ON retoma.audit USING btree (who, id);

CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON retoma.audit FOR EACH STATEMENT EXECUTE FUNCTION retoma.audit_stays();
CREATE TRIGGER audit_rows_stay BEFORE DELETE OR UPDATE ON retoma.audit FOR EACH ROW EXECUTE FUNCTION retoma.audit_stays();

create table retoma.batch_moves (
    before text not null,
    after text not null,
    constraint batch_moves_pkey PRIMARY KEY (before, after)
);

create table retoma.batches (
    id bigint generated always as identity not null,
    name text not null,
    pipeline text not null,
    queue text not null,
    lane_id bigint not null,
    route text,
    labels jsonb default '{}'::jsonb not null,
    configuration json default '{}'::json not null,
    correlation_id text,
    state text default 'queued'::text not null,
    was text default 'new'::text not null,
    reason text,
    cause json,
    total integer,
    unfinished integer default 0 not null,
    failures integer default 0 not null,
    resumes integer default 0 not null,
    max_resumes integer not null,
    max_failure_rate real,
    forgiven integer default 0 not null,
    forgiven_of integer default 0 not null,
    budget numeric,
    spent numeric default 0 not null,
    busy_seconds double precision default 0 not null,
    stall_seconds real not null,
    epoch integer default 0 not null,
    event_seq bigint default 0 not null,
    created_at timestamp with time zone default now() not null,
    sealed_at timestamp with time zone,
    expires_at timestamp with time zone,
    started_at timestamp with time zone,
    stalled_at timestamp with time zone,
    finished_at timestamp with time zone,
    last_progress_at timestamp with time zone,
    last_key text,
    pace_minute double precision default 0 not null,
    pace_five double precision default 0 not null,
    paced_at timestamp with time zone,
    reserved numeric default 0 not null,
    operation_id bigint,
    pruned_at timestamp with time zone,
    looked_at timestamp with time zone,
    unpriced integer default 0 not null,
    pilot_lane_id bigint,
    held_at timestamp with time zone,
    traceparent text,
    finish json,
    finish_job_id bigint,
    finish_lane_id bigint,
    finishing text,
    finish_owed boolean,
    finish_run integer,
    finish_slack integer,
    finish_well integer,
    cohort smallint default 1 not null,
    constraint batches_pkey PRIMARY KEY (id),
    constraint the_state_may_follow_the_one_before FOREIGN KEY (was, state) REFERENCES retoma.batch_moves(before, after),
    constraint a_rate_is_between_none_and_all CHECK (((max_failure_rate >= (0)::double precision) AND (max_failure_rate <= (1)::double precision))),
    constraint a_sealed_batch_has_jobs CHECK ((((sealed_at IS NULL) = (total IS NULL)) AND (total >= 1))),
    constraint failures_are_within_the_total CHECK (((failures >= 0) AND (failures <= COALESCE(total, 0)))),
    constraint nothing_is_left_of_a_completed_batch CHECK (((state <> 'completed'::text) OR (unfinished = 0))),
    constraint only_a_stalled_batch_has_stalled CHECK (((stalled_at IS NOT NULL) = (state = 'stalled'::text))),
    constraint only_an_ended_batch_has_finished CHECK (((finished_at IS NOT NULL) = (state = ANY (ARRAY['completed'::text, 'failed'::text, 'cancelled'::text])))),
    constraint resumes_are_within_their_limit CHECK (((resumes >= 0) AND (max_resumes >= 0))),
    constraint what_is_left_is_within_the_total CHECK (((unfinished >= 0) AND (unfinished <= COALESCE(total, 0))))
) with (fillfactor=50, autovacuum_vacuum_scale_factor=0.02);
CREATE INDEX batches_at_work ON retoma.batches USING btree (last_progress_at) WHERE (state = ANY (ARRAY['running'::text, 'stalled'::text]));
CREATE INDEX batches_by_label ON retoma.batches USING gin (labels jsonb_path_ops);
CREATE INDEX batches_ended ON retoma.batches USING btree (finished_at, id) WHERE (finished_at IS NOT NULL);
CREATE INDEX batches_finishing ON retoma.batches USING btree (id) WHERE ((finishing = ANY (ARRAY['waiting'::text, 'open'::text])) OR finish_owed);
CREATE INDEX batches_open ON retoma.batches USING btree (expires_at) WHERE (sealed_at IS NULL);
CREATE INDEX batches_pruned ON retoma.batches USING btree (pruned_at, id) WHERE (pruned_at IS NOT NULL);
CREATE INDEX batches_under_way ON retoma.batches USING btree (state, id) WHERE (finished_at IS NULL);

CREATE TRIGGER webhook_of_batch AFTER UPDATE ON retoma.batches FOR EACH ROW WHEN (((old.state IS DISTINCT FROM new.state) OR ((new.total > 0) AND (old.unfinished IS DISTINCT FROM new.unfinished) AND ((((COALESCE((old.total - old.unfinished), 0))::bigint * 4) / new.total) < ((((new.total - new.unfinished))::bigint * 4) / new.total))))) EXECUTE FUNCTION retoma.webhook_of_batch();

create table retoma.calls (
    id bigint generated always as identity not null,
    tenant text default ''::text not null,
    key text not null,
    provider text not null,
    model text not null,
    job_id bigint,
    batch_id bigint,
    step text,
    fence bigint,
    worker_id bigint,
    kind text default 'first'::text not null,
    state text default 'open'::text not null,
    request json not null,
    answer text,
    text text,
    finish text,
    request_id text,
    status smallint,
    error text,
    reserved numeric default 0 not null,
    cost numeric,
    input_tokens integer default 0 not null,
    output_tokens integer default 0 not null,
    cached_tokens integer default 0 not null,
    units integer default 0 not null,
    reused integer default 0 not null,
    asked_at timestamp with time zone default clock_timestamp() not null,
    answered_at timestamp with time zone,
    awaited_until timestamp with time zone,
    own_until timestamp with time zone,
    unfit_at timestamp with time zone,
    pipeline text,
    tier text default ''::text not null,
    cost_basis text,
    cache_write_tokens integer default 0 not null,
    cache_write_1h_tokens integer default 0 not null,
    reasoning_tokens integer default 0 not null,
    audio_input_tokens integer default 0 not null,
    audio_output_tokens integer default 0 not null,
    constraint calls_pkey PRIMARY KEY (id),
    constraint a_call_has_a_kind CHECK ((kind = ANY (ARRAY['first'::text, 'again'::text, 'repair'::text]))),
    constraint a_call_has_a_state CHECK ((state = ANY (ARRAY['open'::text, 'answered'::text, 'failed'::text, 'doubtful'::text]))),
    constraint an_answered_call_has_its_answer CHECK (((state = 'answered'::text) = ((answer IS NOT NULL) AND (answered_at IS NOT NULL)))) NOT VALID,
    constraint an_unknown_cost_says_why CHECK (((cost IS NOT NULL) OR (state <> 'answered'::text) OR (cost_basis = ANY (ARRAY['unpriced'::text, 'unreported'::text])))) NOT VALID
);
CREATE INDEX calls_by_age ON retoma.calls USING btree (asked_at, id);
CREATE INDEX calls_by_key ON retoma.calls USING btree (tenant, key) WHERE (state = 'answered'::text);
CREATE INDEX calls_in_doubt ON retoma.calls USING btree (id) WHERE (state = ANY (ARRAY['open'::text, 'doubtful'::text]));
CREATE INDEX calls_of_batch ON retoma.calls USING btree (batch_id, id) WHERE (batch_id IS NOT NULL);
CREATE INDEX calls_of_job ON retoma.calls USING btree (job_id);
CREATE INDEX calls_unpriced ON retoma.calls USING btree (id) WHERE (cost_basis = 'unpriced'::text);
CREATE UNIQUE INDEX one_asks_and_others_wait ON retoma.calls USING btree (tenant, key) WHERE ((state = 'open'::text) AND (awaited_until IS NOT NULL));

create table retoma.checkpoints (
    job_id bigint not null,
    step text not null,
    generation smallint default 1 not null,
    value json not null,
    checksum text not null,
    fingerprint text not null,
    input_hash text,
    fence bigint not null,
    seconds real,
    saved_at timestamp with time zone default now() not null,
    set_aside_at timestamp with time zone,
    reason text,
    constraint checkpoints_pkey PRIMARY KEY (job_id, step, generation)
);

create table retoma.classifications (
    id bigint generated always as identity not null,
    batch_id bigint not null,
    document_id bigint not null,
    project_id bigint not null,
    job_id bigint not null,
    code text not null,
    case_number text,
    filename text,
    source text not null,
    sha256 text,
    settings_hash text not null,
    category text,
    subcategory text,
    confidence text,
    score real,
    margin real,
    justification text,
    quote text,
    text_source text,
    text_tokens integer,
    tokens integer,
    cost numeric,
    chunk_used text,
    answer json,
    copied_from bigint,
    created_at timestamp with time zone default now() not null,
    processed_at timestamp with time zone,
    decided_by text,
    decided_at timestamp with time zone,
    proposed json,
    constraint classifications_pkey PRIMARY KEY (id),
    constraint one_result_per_document_and_execution UNIQUE (batch_id, document_id),
    constraint one_result_per_job UNIQUE (job_id),
    constraint classifications_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES retoma.executions(batch_id) ON DELETE CASCADE,
    constraint classifications_document_id_fkey FOREIGN KEY (document_id) REFERENCES retoma.project_documents(id),
    constraint a_confidence_has_a_name CHECK ((confidence = ANY (ARRAY['alta'::text, 'media'::text, 'baixa'::text]))),
    constraint a_result_is_whole CHECK ((((processed_at IS NULL) = (category IS NULL)) AND ((processed_at IS NULL) = (confidence IS NULL))))
);
CREATE INDEX classifications_doubtful ON retoma.classifications USING btree (id) WHERE ((confidence = 'baixa'::text) AND (decided_at IS NULL));
CREATE INDEX classifications_known ON retoma.classifications USING btree (project_id, sha256, settings_hash) WHERE (processed_at IS NOT NULL);
CREATE INDEX classifications_of_document ON retoma.classifications USING btree (document_id);

create table retoma.cohorts (
    batch_id bigint not null,
    number smallint not null,
    configuration json not null,
    since timestamp with time zone default now() not null,
    planned_by text,
    note text,
    constraint cohorts_pkey PRIMARY KEY (batch_id, number)
);

create table retoma.decisions (
    id bigint generated always as identity not null,
    key text not null,
    review_id bigint not null,
    source text not null,
    item text not null,
    job_id bigint,
    fence bigint,
    pipeline text not null,
    batch_id bigint,
    who text not null,
    name text,
    at timestamp with time zone default now() not null,
    kind text not null,
    proposed json,
    decided json,
    label text,
    decided_label text,
    version text,
    confidence real,
    margin real,
    note text,
    seconds real,
    undoes bigint,
    constraint decisions_pkey PRIMARY KEY (id),
    constraint a_decision_is_made_once UNIQUE (key),
    constraint a_decision_is_undone_once UNIQUE (undoes),
    constraint a_kind_of_decision_is_known CHECK ((kind = ANY (ARRAY['accept'::text, 'correct'::text, 'reject'::text, 'retry'::text, 'undo'::text]))),
    constraint only_an_undo_undoes CHECK (((undoes IS NOT NULL) = (kind = 'undo'::text)))
);
CREATE INDEX decisions_by_who ON retoma.decisions USING btree (who, id);
CREATE INDEX decisions_of_batch ON retoma.decisions USING btree (batch_id, id) WHERE (batch_id IS NOT NULL);
CREATE INDEX decisions_of_job ON retoma.decisions USING btree (job_id) WHERE (job_id IS NOT NULL);
CREATE INDEX decisions_of_review ON retoma.decisions USING btree (review_id, id);

CREATE TRIGGER decisions_stay BEFORE UPDATE ON retoma.decisions FOR EACH ROW EXECUTE FUNCTION retoma.decisions_stay();

create table retoma.discards (
    job_id bigint not null,
    failed_at timestamp with time zone not null,
    discarded_at timestamp with time zone default now() not null,
    discarded_by text not null,
    reason text,
    constraint discards_pkey PRIMARY KEY (job_id)
);

create table retoma.document_chunks (
    document_id uuid not null,
    place integer not null,
    content text not null,
    section_type text not null,
    title text,
    page_start integer not null,
    page_end integer not null,
    token_count integer not null,
    provider text not null,
    model text not null,
    dimensions integer not null,
    vector real[] not null,
    words tsvector generated always as (((setweight(to_tsvector('portuguese'::regconfig, COALESCE(title, ''::text)), 'A'::"char") || to_tsvector('portuguese'::regconfig, content)) || to_tsvector('portuguese'::regconfig, translate(content, 'áàâãäéèêëíìîïóòôõöúùûüçñÁÀÂÃÄÉÈÊËÍÌÎÏÓÒÔÕÖÚÙÛÜÇÑ'::text, 'aaaaaeeeeiiiiooooouuuucnAAAAAEEEEIIIIOOOOOUUUUCN'::text)))) stored not null,
    constraint document_chunks_pkey PRIMARY KEY (document_id, place),
    constraint document_chunks_document_id_fkey FOREIGN KEY (document_id) REFERENCES retoma.documents(id) ON DELETE CASCADE,
    constraint a_section_has_a_type CHECK ((section_type = ANY (ARRAY['cláusula'::text, 'artigo'::text, 'capítulo'::text, 'seção'::text, 'parágrafo'::text, 'texto_geral'::text]))),
    constraint a_vector_has_its_length CHECK ((cardinality(vector) = dimensions)),
    constraint pages_are_in_order CHECK ((page_start <= page_end))
);
CREATE INDEX document_chunks_near ON retoma.document_chunks USING hnsw (((vector)::vector(512)) vector_cosine_ops) WHERE (dimensions = 512);
CREATE INDEX document_chunks_near_wide ON retoma.document_chunks USING hnsw (((vector)::vector(1536)) vector_cosine_ops) WHERE (dimensions = 1536);
CREATE INDEX document_chunks_words ON retoma.document_chunks USING gin (words);

create table retoma.document_fields (
    document_id uuid not null,
    place integer not null,
    name text not null,
    value text not null,
    confidence real not null,
    page integer,
    constraint document_fields_pkey PRIMARY KEY (document_id, place),
    constraint document_fields_document_id_fkey FOREIGN KEY (document_id) REFERENCES retoma.documents(id) ON DELETE CASCADE,
    constraint a_confidence_is_a_share CHECK (((confidence >= (0)::double precision) AND (confidence <= (1)::double precision)))
);

create table retoma.document_tables (
    document_id uuid not null,
    place integer not null,
    page integer,
    rows json not null,
    constraint document_tables_pkey PRIMARY KEY (document_id, place),
    constraint document_tables_document_id_fkey FOREIGN KEY (document_id) REFERENCES retoma.documents(id) ON DELETE CASCADE
);

create table retoma.documents (
    id uuid default gen_random_uuid() not null,
    number bigint generated always as identity not null,
    filename text not null,
    kind text not null,
    mime_type text not null,
    size bigint not null,
    sha256 text not null,
    blob text not null,
    page_count integer,
    reader text,
    job_id bigint,
    processing_id uuid default gen_random_uuid() not null,
    attempts integer default 0 not null,
    uploaded_by text,
    correlation_id text,
    processed_at timestamp with time zone,
    created_at timestamp with time zone default now() not null,
    updated_at timestamp with time zone default now() not null,
    constraint documents_pkey PRIMARY KEY (id),
    constraint one_document_per_blob UNIQUE (blob),
    constraint one_document_per_content UNIQUE (sha256),
    constraint one_document_per_number UNIQUE (number),
    constraint a_document_has_content CHECK ((size > 0))
);
CREATE INDEX documents_of_job ON retoma.documents USING btree (job_id);

create table retoma.duties (
    name text not null,
    last_at timestamp with time zone,
    taken_by text,
    constraint duties_pkey PRIMARY KEY (name)
) with (fillfactor=50);

create table retoma.embedding_sources (
    id bigint generated always as identity not null,
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
    created_at timestamp with time zone default now() not null,
    switched_on_at timestamp with time zone,
    switched_off_at timestamp with time zone,
    active boolean generated always as (((switched_on_at IS NOT NULL) AND (switched_off_at IS NULL))) stored not null,
    constraint embedding_sources_pkey PRIMARY KEY (id),
    constraint versions_are_counted UNIQUE (organisation, site, source_type, source_id, provider, model, version),
    constraint the_first_version_is_one CHECK ((version >= 1))
);
CREATE UNIQUE INDEX a_source_has_one_active_version ON retoma.embedding_sources USING btree (organisation, site, source_type, source_id, provider, model) WHERE ((switched_on_at IS NOT NULL) AND (switched_off_at IS NULL));
CREATE UNIQUE INDEX a_source_waits_for_one_version ON retoma.embedding_sources USING btree (organisation, site, source_type, source_id, provider, model) WHERE ((switched_on_at IS NULL) AND (switched_off_at IS NULL));
CREATE INDEX embedding_sources_by_content ON retoma.embedding_sources USING btree (organisation, site, content_hash, provider, model) WHERE (switched_off_at IS NULL);

create table retoma.embeddings (
    id bigint generated always as identity not null,
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
    created_at timestamp with time zone default now() not null,
    words tsvector generated always as (to_tsvector('portuguese'::regconfig, content)) stored,
    constraint embeddings_pkey PRIMARY KEY (id),
    constraint a_content_is_embedded_once UNIQUE (organisation, site, content_hash, provider, model),
    constraint a_vector_has_its_dimensions CHECK (((cardinality(vector) = dimensions) AND (dimensions > 0)))
);
CREATE INDEX embeddings_by_meaning_1536 ON retoma.embeddings USING hnsw (((vector)::vector(1536)) vector_cosine_ops) WHERE (dimensions = 1536);
CREATE INDEX embeddings_by_meaning_512 ON retoma.embeddings USING hnsw (((vector)::vector(512)) vector_cosine_ops) WHERE (dimensions = 512);
CREATE INDEX embeddings_by_words ON retoma.embeddings USING gin (words);

create table retoma.events (
    batch_id bigint not null,
    seq bigint not null,
    kind text not null,
    at timestamp with time zone default clock_timestamp() not null,
    data json not null,
    constraint events_pkey PRIMARY KEY (batch_id, seq)
);

create table retoma.executions (
    batch_id bigint not null,
    project_id bigint not null,
    settings_hash text not null,
    created_at timestamp with time zone default now() not null,
    archived_at timestamp with time zone,
    constraint executions_pkey PRIMARY KEY (batch_id),
    constraint executions_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES retoma.batches(id) ON DELETE CASCADE,
    constraint executions_project_id_fkey FOREIGN KEY (project_id) REFERENCES retoma.projects(id)
);
CREATE INDEX executions_of_project ON retoma.executions USING btree (project_id, batch_id);

create table retoma.jobs (
    id bigint generated always as identity not null,
    batch_id bigint,
    queue text not null,
    lane_id bigint default 0 not null,
    pipeline text not null,
    key text,
    priority smallint default 0 not null,
    state text default 'queued'::text not null,
    reason text,
    run_at timestamp with time zone default now() not null,
    expires_at timestamp with time zone,
    attempt integer default 0 not null,
    max_attempts integer not null,
    crashes smallint default 0 not null,
    fence bigint default 0 not null,
    signals integer default 0 not null,
    worker_id bigint,
    claim_token uuid,
    cancel_requested_at timestamp with time zone,
    timeout_seconds real not null,
    created_at timestamp with time zone default now() not null,
    claimed_at timestamp with time zone,
    finished_at timestamp with time zone,
    correlation_id text,
    traceparent text,
    input json not null,
    output json,
    error text,
    retried_fence bigint,
    restarted_fence bigint,
    alone boolean default false not null,
    cohort smallint default 1 not null,
    constraint jobs_pkey PRIMARY KEY (id),
    constraint a_state_has_a_name CHECK ((state = ANY ('{queued,running,completed,skipped,failed,review,cancelled}'::text[]))),
    constraint attempts_are_within_their_limit CHECK (((attempt >= 0) AND (attempt <= (max_attempts - ((state = 'queued'::text))::integer)))),
    constraint only_a_running_job_is_held CHECK (((worker_id IS NOT NULL) = (state = 'running'::text))),
    constraint only_an_ended_job_has_finished CHECK (((finished_at IS NULL) = (state = ANY (ARRAY['queued'::text, 'running'::text]))))
) with (fillfactor=80, autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_cost_delay=0, autovacuum_analyze_scale_factor=0.05);
CREATE INDEX jobs_by_correlation ON retoma.jobs USING btree (correlation_id, id) WHERE (correlation_id IS NOT NULL);
CREATE INDEX jobs_by_fingerprint ON retoma.jobs USING btree (substr(md5(regexp_replace(regexp_replace("left"(split_part(COALESCE(error, reason, ''::text), '
'::text, 1), 500), '''[^'']*''|"[^"]*"|[^[:space:]:]+\.[[:alnum:]]{2,4}\y'::text, '…'::text, 'g'::text), '[0-9a-fA-F-]*[0-9][0-9a-fA-F-]*'::text, '#'::text, 'g'::text)), 1, 12), finished_at) WHERE (state = 'failed'::text);
CREATE UNIQUE INDEX jobs_by_key ON retoma.jobs USING btree (pipeline, COALESCE(batch_id, (0)::bigint), key) WHERE (key IS NOT NULL);
CREATE INDEX jobs_by_outcome ON retoma.jobs USING btree (state, id) WHERE (state = ANY (ARRAY['failed'::text, 'review'::text, 'cancelled'::text, 'skipped'::text]));
CREATE INDEX jobs_ended_alone ON retoma.jobs USING btree (finished_at) WHERE ((finished_at IS NOT NULL) AND (batch_id IS NULL));
CREATE INDEX jobs_ended_by_kind ON retoma.jobs USING btree (queue, pipeline, id) WHERE (finished_at IS NOT NULL);
CREATE INDEX jobs_ended_lately ON retoma.jobs USING btree (queue, finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX jobs_expiring ON retoma.jobs USING btree (expires_at) WHERE ((state = 'queued'::text) AND (expires_at IS NOT NULL));
CREATE INDEX jobs_failed_at ON retoma.jobs USING btree (finished_at) WHERE (state = 'failed'::text);
CREATE INDEX jobs_held ON retoma.jobs USING btree (worker_id) WHERE (state = 'running'::text);
CREATE INDEX jobs_in_line ON retoma.jobs USING btree (queue, lane_id, pipeline, priority, run_at, id) WHERE (state = 'queued'::text);
CREATE INDEX jobs_limited ON retoma.jobs USING btree (reason, run_at) WHERE ((state = 'queued'::text) AND (reason ~~ 'limited: %%'::text));
CREATE INDEX jobs_of_batch_in_state ON retoma.jobs USING btree (batch_id, state, id) WHERE (batch_id IS NOT NULL);
CREATE INDEX jobs_of_lane ON retoma.jobs USING btree (lane_id) WHERE ((lane_id > 0) AND (batch_id IS NULL));
CREATE INDEX jobs_to_run_alone ON retoma.jobs USING btree (queue, lane_id) WHERE ((state = 'queued'::text) AND (alone OR (crashes >= 2)));

CREATE TRIGGER webhook_of_job AFTER UPDATE OF state ON retoma.jobs FOR EACH ROW WHEN (((new.state = 'failed'::text) AND (old.state <> 'failed'::text) AND (new.queue <> 'retoma'::text))) EXECUTE FUNCTION retoma.webhook_of_job();

create table retoma.lanes (
    id bigint generated always as identity not null,
    queue text not null,
    name text not null,
    at_once integer,
    closed_at timestamp with time zone,
    created_at timestamp with time zone default now() not null,
    awake boolean default true not null,
    wake_at timestamp with time zone,
    kept boolean default false not null,
    unseated_since timestamp with time zone,
    constraint lanes_pkey PRIMARY KEY (id),
    constraint one_lane_per_name UNIQUE (queue, name),
    constraint a_limit_lets_at_least_one_run CHECK ((at_once >= 1))
);
CREATE INDEX lanes_awake ON retoma.lanes USING btree (queue, id) WHERE (awake AND (closed_at IS NULL));
CREATE INDEX lanes_due ON retoma.lanes USING btree (queue, wake_at) WHERE ((NOT awake) AND (closed_at IS NULL));
CREATE INDEX lanes_resting ON retoma.lanes USING btree (id) WHERE ((NOT awake) AND (closed_at IS NULL));

create table retoma.limits (
    name text not null,
    requests integer,
    tokens integer,
    at_once integer,
    requests_left double precision default 0 not null,
    tokens_left double precision default 0 not null,
    refilled_at timestamp with time zone default now() not null,
    cooled_until timestamp with time zone,
    reason text,
    failures integer default 0 not null,
    opened_until timestamp with time zone,
    probing_until timestamp with time zone,
    turn_at timestamp with time zone,
    failed_at timestamp with time zone,
    constraint limits_pkey PRIMARY KEY (name),
    constraint a_limit_allows_something CHECK (((requests >= 1) AND (tokens >= 1) AND (at_once >= 1)))
) with (fillfactor=50);

create table retoma.loose_blobs (
    blob text not null,
    since timestamp with time zone default now() not null,
    dropped_at timestamp with time zone,
    constraint loose_blobs_pkey PRIMARY KEY (blob)
);
CREATE INDEX loose_blobs_oldest ON retoma.loose_blobs USING btree (since);

create table retoma.operations (
    id bigint generated always as identity not null,
    batch_id bigint,
    kind text not null,
    asked_by text,
    asked json default '{}'::json not null,
    after bigint default 0 not null,
    left_over bigint[] default '{}'::bigint[] not null,
    wanted integer not null,
    done integer default 0 not null,
    started_at timestamp with time zone default now() not null,
    finished_at timestamp with time zone,
    error text,
    filter json,
    upto bigint,
    exact boolean default true not null,
    skipped jsonb default '{}'::jsonb not null,
    constraint operations_pkey PRIMARY KEY (id),
    constraint a_filter_ends_at_a_job CHECK (((filter IS NULL) = (upto IS NULL))) NOT VALID,
    constraint an_operation_concerns_a_batch_or_a_filter CHECK (((batch_id IS NULL) = (filter IS NOT NULL))) NOT VALID,
    constraint an_operation_has_a_kind CHECK ((kind = ANY (ARRAY['cancel'::text, 'retry'::text, 'restart'::text, 'move'::text, 'priority'::text, 'discard'::text, 'reinstate'::text, 'replan'::text]))) NOT VALID
);
CREATE UNIQUE INDEX one_operation_at_a_time ON retoma.operations USING btree (batch_id) WHERE (finished_at IS NULL);
CREATE INDEX operations_by_age ON retoma.operations USING btree (finished_at) WHERE (batch_id IS NULL);
CREATE INDEX operations_of_batch ON retoma.operations USING btree (batch_id, id);

create table retoma.permits (
    name text not null,
    worker_id bigint not null,
    taken integer not null,
    constraint permits_pkey PRIMARY KEY (name, worker_id)
);

create table retoma.prices (
    provider text not null,
    model text not null,
    since date not null,
    input numeric default 0 not null,
    cached numeric default 0 not null,
    output numeric default 0 not null,
    unit numeric default 0 not null,
    source text not null,
    cache_write numeric,
    cache_write_1h numeric,
    reasoning numeric,
    audio_input numeric,
    audio_output numeric,
    constraint prices_pkey PRIMARY KEY (provider, model, since)
);

create table retoma.project_documents (
    id bigint generated always as identity not null,
    project_id bigint not null,
    code text not null,
    case_number text,
    description text,
    filename text,
    kind text,
    sha256 text,
    size bigint,
    blob text,
    source text default 'upload'::text not null,
    created_at timestamp with time zone default now() not null,
    archived_at timestamp with time zone,
    constraint project_documents_pkey PRIMARY KEY (id),
    constraint one_document_per_code UNIQUE (project_id, code),
    constraint the_same_content_is_there_once UNIQUE (project_id, sha256),
    constraint project_documents_project_id_fkey FOREIGN KEY (project_id) REFERENCES retoma.projects(id) ON DELETE CASCADE,
    constraint a_code_has_1_to_100_characters CHECK (((length(code) >= 1) AND (length(code) <= 100))),
    constraint a_document_is_uploaded_or_from_a_folder CHECK ((source = ANY (ARRAY['upload'::text, 'folder'::text, 'code'::text]))),
    constraint a_file_is_whole CHECK ((((blob IS NULL) = (sha256 IS NULL)) AND ((blob IS NULL) = (kind IS NULL)) AND ((blob IS NULL) = (size IS NULL))))
);

create table retoma.projects (
    id bigint generated always as identity not null,
    name text not null,
    description text,
    prompt_id bigint,
    model text,
    mode text default 'chunk'::text not null,
    "position" text default 'end'::text not null,
    chunk_tokens integer default 512 not null,
    at_once integer default 3 not null,
    max_resumes integer default 3 not null,
    max_retries integer default 2 not null,
    created_at timestamp with time zone default now() not null,
    updated_at timestamp with time zone default now() not null,
    archived_at timestamp with time zone,
    constraint projects_pkey PRIMARY KEY (id),
    constraint projects_prompt_id_fkey FOREIGN KEY (prompt_id) REFERENCES retoma.prompts(id),
    constraint a_document_is_read_whole_or_in_part CHECK ((mode = ANY (ARRAY['chunk'::text, 'whole'::text]))),
    constraint a_part_has_100_to_4000_tokens CHECK (((chunk_tokens >= 100) AND (chunk_tokens <= 4000))),
    constraint a_part_is_the_end_or_the_start CHECK (("position" = ANY (ARRAY['end'::text, 'start'::text]))),
    constraint a_project_has_a_name CHECK ((name <> ''::text)),
    constraint one_to_ten_run_at_once CHECK (((at_once >= 1) AND (at_once <= 10))),
    constraint resumes_and_retries_are_not_negative CHECK (((max_resumes >= 0) AND (max_retries >= 0)))
);

create table retoma.prompt_versions (
    prompt_id bigint not null,
    sha256 text not null,
    content text not null,
    created_at timestamp with time zone default now() not null,
    constraint prompt_versions_pkey PRIMARY KEY (prompt_id, sha256),
    constraint prompt_versions_prompt_id_fkey FOREIGN KEY (prompt_id) REFERENCES retoma.prompts(id) ON DELETE CASCADE,
    constraint a_prompt_says_something CHECK ((length(content) >= 10))
);

create table retoma.prompts (
    id bigint generated always as identity not null,
    name text not null,
    description text,
    document_codes text,
    sha256 text not null,
    created_at timestamp with time zone default now() not null,
    updated_at timestamp with time zone default now() not null,
    archived_at timestamp with time zone,
    constraint prompts_pkey PRIMARY KEY (id),
    constraint a_prompt_has_a_name CHECK ((name <> ''::text))
);
CREATE UNIQUE INDEX prompts_by_name ON retoma.prompts USING btree (name) WHERE (archived_at IS NULL);

create table retoma.queues (
    name text not null,
    paused_at timestamp with time zone,
    paused_reason text,
    weight integer default 1 not null,
    paused_until timestamp with time zone,
    constraint queues_pkey PRIMARY KEY (name),
    constraint a_weight_is_at_least_one CHECK (((weight >= 1) AND (weight <= 1000))) NOT VALID
);

create table retoma.replies (
    principal text not null,
    route text not null,
    key text not null,
    request_hash text not null,
    status smallint not null,
    headers json not null,
    body text not null,
    created_at timestamp with time zone default now() not null,
    constraint replies_pkey PRIMARY KEY (principal, route, key)
);
CREATE INDEX replies_by_age ON retoma.replies USING btree (created_at);

create table retoma.reviews (
    id bigint generated always as identity not null,
    source text not null,
    item text not null,
    job_id bigint,
    fence bigint,
    pipeline text not null,
    batch_id bigint,
    state text default 'open'::text not null,
    title text,
    reason text,
    proposal json,
    label text,
    version text,
    confidence real,
    margin real,
    evidence json,
    created_at timestamp with time zone default now() not null,
    settled_at timestamp with time zone,
    leased_by text,
    leased_until timestamp with time zone,
    skipped_by text[] default '{}'::text[] not null,
    constraint reviews_pkey PRIMARY KEY (id),
    constraint a_thing_is_reviewed_once_at_a_time UNIQUE (source, item),
    constraint a_lease_has_an_end CHECK (((leased_by IS NULL) = (leased_until IS NULL))),
    constraint a_review_is_open_settled_or_gone CHECK ((state = ANY (ARRAY['open'::text, 'settled'::text, 'gone'::text]))),
    constraint only_an_open_review_is_unsettled CHECK (((settled_at IS NULL) = (state = 'open'::text)))
);
CREATE INDEX reviews_leased ON retoma.reviews USING btree (leased_by) WHERE (leased_by IS NOT NULL);
CREATE INDEX reviews_of_job ON retoma.reviews USING btree (job_id) WHERE (job_id IS NOT NULL);
CREATE INDEX reviews_open ON retoma.reviews USING btree (margin, id) WHERE (state = 'open'::text);

create table retoma.schedule_runs (
    schedule text not null,
    job_id bigint not null,
    at timestamp with time zone default now() not null,
    by_hand boolean default false not null,
    constraint schedule_runs_pkey PRIMARY KEY (schedule, job_id)
);

create table retoma.schedules (
    name text not null,
    pipeline text not null,
    queue text not null,
    cron text not null,
    zone text not null,
    input json not null,
    priority smallint default 0 not null,
    max_attempts integer not null,
    timeout_seconds real not null,
    next_run_at timestamp with time zone not null,
    last_run_at timestamp with time zone,
    paused_at timestamp with time zone,
    created_at timestamp with time zone default now() not null,
    declared text,
    constraint schedules_pkey PRIMARY KEY (name)
);

create table retoma.sessions (
    id text not null,
    secret_hash bytea not null,
    opened_by text not null,
    key_id text,
    proof bytea,
    link_hash bytea,
    address text,
    created_at timestamp with time zone default now() not null,
    seen_at timestamp with time zone default now() not null,
    expires_at timestamp with time zone not null,
    ended_at timestamp with time zone,
    user_id text,
    constraint sessions_pkey PRIMARY KEY (id),
    constraint a_link_opens_once UNIQUE (link_hash),
    constraint a_session_is_opened_in_one_of_four_ways CHECK ((opened_by = ANY (ARRAY['key'::text, 'environment'::text, 'token'::text, 'user'::text]))) NOT VALID,
    constraint a_session_of_a_key_names_it CHECK (((key_id IS NULL) = (opened_by <> 'key'::text))),
    constraint a_session_of_a_user_names_them CHECK (((user_id IS NULL) = (opened_by <> 'user'::text))) NOT VALID
);
CREATE INDEX sessions_by_age ON retoma.sessions USING btree (expires_at);
CREATE INDEX sessions_of_key ON retoma.sessions USING btree (key_id) WHERE (ended_at IS NULL);

create table retoma.sign_ins (
    state_hash bytea not null,
    browser_hash bytea not null,
    nonce text not null,
    verifier text not null,
    place text not null,
    expires_at timestamp with time zone not null,
    constraint sign_ins_pkey PRIMARY KEY (state_hash)
);
CREATE INDEX sign_ins_by_age ON retoma.sign_ins USING btree (expires_at);

create table retoma.signals (
    job_id bigint not null,
    name text not null,
    value json not null,
    sent_at timestamp with time zone default now() not null,
    constraint signals_pkey PRIMARY KEY (job_id, name)
);

create table retoma.slots (
    lane_id bigint not null,
    place integer not null,
    job_id bigint,
    constraint slots_pkey PRIMARY KEY (lane_id, place),
    constraint slots_lane_id_fkey FOREIGN KEY (lane_id) REFERENCES retoma.lanes(id) ON DELETE CASCADE
);
CREATE INDEX slots_free ON retoma.slots USING btree (lane_id, place) WHERE (job_id IS NULL);
CREATE INDEX slots_taken ON retoma.slots USING btree (job_id) WHERE (job_id IS NOT NULL);

create table retoma.spending (
    day date not null,
    tenant text not null,
    provider text not null,
    model text not null,
    pipeline text not null,
    outcome text not null,
    calls bigint not null,
    reused bigint not null,
    unpriced bigint not null,
    cost numeric not null,
    reserved numeric not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    cached_tokens bigint not null,
    cache_write_tokens bigint not null,
    reasoning_tokens bigint not null,
    units bigint not null,
    constraint spending_pkey PRIMARY KEY (day, tenant, provider, model, pipeline, outcome),
    constraint an_outcome_has_a_name CHECK ((outcome = ANY (ARRAY['useful'::text, 'again'::text, 'lost'::text, 'doubtful'::text])))
);

create table retoma.submissions (
    caller text not null,
    kind text not null,
    id bigint not null,
    constraint submissions_pkey PRIMARY KEY (caller, kind, id),
    constraint a_submission_is_a_job_or_a_batch CHECK ((kind = ANY (ARRAY['job'::text, 'batch'::text])))
);

create table retoma.tier_prices (
    provider text not null,
    model text not null,
    tier text not null,
    since date not null,
    input numeric default 0 not null,
    cached numeric default 0 not null,
    cache_write numeric,
    cache_write_1h numeric,
    output numeric default 0 not null,
    reasoning numeric,
    audio_input numeric,
    audio_output numeric,
    unit numeric default 0 not null,
    source text not null,
    constraint tier_prices_pkey PRIMARY KEY (provider, model, tier, since),
    constraint the_standard_tier_is_in_prices CHECK ((tier <> ''::text))
);

create table retoma.tries (
    subject text not null,
    failures integer not null,
    last_at timestamp with time zone default now() not null,
    refused_until timestamp with time zone,
    constraint tries_pkey PRIMARY KEY (subject)
);
CREATE INDEX tries_by_age ON retoma.tries USING btree (last_at);

create table retoma.usage (
    caller text not null,
    day date not null,
    bytes bigint not null,
    files bigint not null,
    constraint usage_pkey PRIMARY KEY (caller),
    constraint nobody_has_sent_less_than_nothing CHECK (((bytes >= 0) AND (files >= 0)))
) with (fillfactor=50);

create table retoma.users (
    id text not null,
    name text not null,
    role text not null,
    password_hash text,
    issuer text,
    subject text,
    created_at timestamp with time zone default now() not null,
    password_at timestamp with time zone,
    signed_in_at timestamp with time zone,
    locked_at timestamp with time zone,
    removed_at timestamp with time zone,
    constraint users_pkey PRIMARY KEY (id),
    constraint a_role_is_known CHECK ((role = ANY (ARRAY['reader'::text, 'reviewer'::text, 'operator'::text, 'admin'::text]))),
    constraint an_identity_has_two_parts CHECK (((issuer IS NULL) = (subject IS NULL)))
);
CREATE UNIQUE INDEX users_by_identity ON retoma.users USING btree (issuer, subject) WHERE (removed_at IS NULL);
CREATE UNIQUE INDEX users_by_name ON retoma.users USING btree (name) WHERE (removed_at IS NULL);

create table retoma.views (
    id bigint generated always as identity not null,
    name text not null,
    page text not null,
    query text not null,
    owner text not null,
    shared boolean default false not null,
    created_at timestamp with time zone default now() not null,
    constraint views_pkey PRIMARY KEY (id),
    constraint a_view_has_a_name CHECK (((length(name) >= 1) AND (length(name) <= 80)))
);
CREATE UNIQUE INDEX views_by_name ON retoma.views USING btree (page, owner, name);

create table retoma.webhook_attempts (
    delivery_id text not null,
    attempt integer not null,
    at timestamp with time zone default now() not null,
    status integer,
    error text,
    seconds real not null,
    constraint webhook_attempts_pkey PRIMARY KEY (delivery_id, attempt)
);

create table retoma.webhook_deliveries (
    id text not null,
    endpoint_id text not null,
    kind text not null,
    body text not null,
    state text default 'pending'::text not null,
    attempts integer default 0 not null,
    tries integer default 0 not null,
    status integer,
    error text,
    created_at timestamp with time zone default now() not null,
    next_at timestamp with time zone default now() not null,
    ended_at timestamp with time zone,
    constraint webhook_deliveries_pkey PRIMARY KEY (id),
    constraint a_delivery_is_pending_or_ended CHECK ((state = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text]))),
    constraint only_an_ended_delivery_has_ended CHECK (((ended_at IS NULL) = (state = 'pending'::text)))
) with (fillfactor=80);
CREATE INDEX webhook_deliveries_by_age ON retoma.webhook_deliveries USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX webhook_deliveries_due ON retoma.webhook_deliveries USING btree (endpoint_id, next_at) WHERE (state = 'pending'::text);
CREATE INDEX webhook_deliveries_of_endpoint ON retoma.webhook_deliveries USING btree (endpoint_id, created_at, id);

create table retoma.webhook_endpoints (
    id text not null,
    url text not null,
    description text default ''::text not null,
    kinds text[] not null,
    secret text not null,
    previous_secret text,
    previous_until timestamp with time zone,
    created_at timestamp with time zone default now() not null,
    succeeded_at timestamp with time zone,
    failed_at timestamp with time zone,
    failures integer default 0 not null,
    disabled_at timestamp with time zone,
    disabled_reason text,
    constraint webhook_endpoints_pkey PRIMARY KEY (id)
);

create table retoma.workers (
    id bigint generated always as identity not null,
    label text not null,
    host text not null,
    pid integer not null,
    version text not null,
    queues text[] not null,
    pipelines text[] not null,
    at_once integer not null,
    lease_seconds real not null,
    started_at timestamp with time zone default now() not null,
    seen_at timestamp with time zone default now() not null,
    lease_expires_at timestamp with time zone not null,
    stopping_at timestamp with time zone,
    stopped_at timestamp with time zone,
    reason text,
    claimed bigint default 0 not null,
    completed bigint default 0 not null,
    failed bigint default 0 not null,
    retried bigint default 0 not null,
    recovered bigint default 0 not null,
    busy_seconds double precision default 0 not null,
    hint bigint,
    machine text,
    supervisor integer,
    supervisor_started bigint,
    missing_since timestamp with time zone,
    spared_at timestamp with time zone,
    doing json,
    memory_megabytes real,
    drain_requested_at timestamp with time zone,
    drain_requested_by text,
    constraint workers_pkey PRIMARY KEY (id)
) with (fillfactor=50);
CREATE INDEX workers_alive ON retoma.workers USING btree (id) WHERE (stopped_at IS NULL);

create view retoma.document_processing_jobs as
 SELECT document.processing_id AS id,
    document.id AS document_id,
        CASE
            WHEN (job.state = 'queued'::text) THEN 'PENDING'::text
            WHEN (job.state = 'running'::text) THEN 'PROCESSING'::text
            WHEN (job.state = ANY (ARRAY['completed'::text, 'skipped'::text])) THEN 'COMPLETED'::text
            WHEN ((job.id IS NULL) AND (document.processed_at IS NOT NULL)) THEN 'COMPLETED'::text
            ELSE 'FAILED'::text
        END AS status,
    COALESCE(job.attempt, document.attempts) AS attempts,
        CASE
            WHEN ((job.id IS NULL) AND (document.processed_at IS NOT NULL)) THEN NULL::text
            WHEN (job.id IS NULL) THEN 'Its job was pruned before it had completed; process it again.'::text
            WHEN (job.state = ANY (ARRAY['completed'::text, 'skipped'::text])) THEN NULL::text
            WHEN (job.state = ANY (ARRAY['failed'::text, 'review'::text, 'cancelled'::text])) THEN COALESCE(NULLIF(split_part(job.error, '

'::text, 1), ''::text), job.reason, job.state)
            ELSE NULLIF(split_part(job.error, '

'::text, 1), ''::text)
        END AS error_log,
    COALESCE(job.created_at, document.created_at) AS created_at,
        CASE
            WHEN (job.attempt > 0) THEN job.claimed_at
            ELSE NULL::timestamp with time zone
        END AS started_at,
        CASE
            WHEN (job.id IS NULL) THEN document.processed_at
            ELSE job.finished_at
        END AS completed_at,
    GREATEST(document.updated_at, job.created_at, job.claimed_at, job.finished_at) AS updated_at,
    document.job_id
   FROM (retoma.documents document
     LEFT JOIN retoma.jobs job ON ((job.id = document.job_id)));

create view retoma.queue_jobs as
 SELECT job.id,
    job.pipeline AS "jobType",
        CASE job.state
            WHEN 'queued'::text THEN 'pending'::text
            WHEN 'running'::text THEN 'processing'::text
            WHEN 'failed'::text THEN 'failed'::text
            WHEN 'cancelled'::text THEN 'failed'::text
            ELSE 'completed'::text
        END AS status,
    job.input AS payload,
    job.priority,
    job.attempt AS attempts,
    job.max_attempts AS "maxAttempts",
    worker.label AS "lockedBy",
        CASE
            WHEN (job.state = 'running'::text) THEN job.claimed_at
            ELSE NULL::timestamp with time zone
        END AS "lockedAt",
    worker.lease_expires_at AS "lockExpiresAt",
    worker.seen_at AS "lastHeartbeatAt",
    job.claimed_at AS "processingStartedAt",
    job.finished_at AS "processedAt",
    job.error AS "lastError",
    job.run_at AS "runAt",
    job.created_at AS "createdAt"
   FROM (retoma.jobs job
     LEFT JOIN retoma.workers worker ON ((worker.id = job.worker_id)));

CREATE OR REPLACE FUNCTION retoma.audit_stays()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    if tg_op = 'DELETE' and current_setting('retoma.prunes', true) = 'audit' and old.at < now() - interval '1 day'
    then
        return old;
    end if;
    raise exception using
        message = 'The audit is added to and never changed: ' || lower(tg_op) || ' is refused.',
        errcode = 'insufficient_privilege',
        hint = 'Rows go by RETOMA_AUDIT_DAYS alone: retoma prune.';
end
$function$;

CREATE OR REPLACE FUNCTION retoma.decisions_stay()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    raise exception using
        message = 'Decisions are added and never changed: ' || lower(tg_op) || ' is refused.',
        errcode = 'insufficient_privilege',
        hint = 'Undo a decision instead; its rows go with the job they belong to.';
end
$function$;

CREATE OR REPLACE FUNCTION retoma.webhook_message(kind text, data jsonb)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'pg_catalog'
AS $function$
    insert into retoma.webhook_deliveries (id, endpoint_id, kind, body)
    select 'msg_' || replace(gen_random_uuid()::text, '-', ''), endpoint.id, kind,
           jsonb_build_object('type', kind, 'data', data, 'timestamp',
                              to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text
      from retoma.webhook_endpoints as endpoint
     where endpoint.disabled_at is null
       and kind = any (endpoint.kinds)
$function$;

CREATE OR REPLACE FUNCTION retoma.webhook_of_batch()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
declare
    data jsonb;
    quarter integer;
begin
    if not exists (select from retoma.webhook_endpoints as endpoint where endpoint.disabled_at is null) then
        return null;
    end if;
    data := jsonb_build_object(
        'batch_id', new.id, 'name', left(new.name, 200), 'pipeline', new.pipeline, 'state', new.state, 'was', old.state,
        'reason', left(new.reason, 200), 'total', new.total, 'unfinished', new.unfinished, 'failures', new.failures,
        'resumes', new.resumes, 'spent', new.spent, 'budget', new.budget,
        'correlation_id', left(new.correlation_id, 200));
    if new.total > 0 and new.state not in ('completed', 'failed', 'cancelled') then
        for quarter in (coalesce(old.total - old.unfinished, 0)::bigint * 4 / new.total + 1) ..
                       least((new.total - new.unfinished)::bigint * 4 / new.total, 3) loop
            perform retoma.webhook_message('batch.progress_' || quarter * 25, data);
        end loop;
    end if;
    if new.state is not distinct from old.state then
        return null;
    end if;
    if new.state = 'running' then
        perform retoma.webhook_message(
            case when old.state = 'queued' then 'batch.started' else 'batch.resumed' end, data);
    elsif new.state in ('stalled', 'completed', 'failed', 'cancelled') then
        perform retoma.webhook_message('batch.' || new.state, data);
    elsif new.state = 'paused' then
        perform retoma.webhook_message(
            case when new.reason = 'budget' then 'budget.reached' else 'batch.paused' end, data);
    end if;
    return null;
end
$function$;

CREATE OR REPLACE FUNCTION retoma.webhook_of_job()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog'
AS $function$
begin
    perform retoma.webhook_message('job.failed', jsonb_build_object(
        'job_id', new.id, 'batch_id', new.batch_id, 'pipeline', new.pipeline, 'queue', new.queue,
        'key', left(new.key, 500), 'attempt', new.attempt, 'max_attempts', new.max_attempts,
        'correlation_id', left(new.correlation_id, 200)));
    return null;
end
$function$;
