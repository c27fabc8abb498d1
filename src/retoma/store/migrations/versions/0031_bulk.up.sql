-- views   the query of a page under a name: of one person (owner), or of everybody
create table retoma.views (
    id               bigint generated always as identity primary key,
    name             text not null,
    page             text not null,
    query            text not null,
    owner            text not null,
    shared           boolean not null default false,
    created_at       timestamptz not null default now(),
    constraint a_view_has_a_name check (length(name) between 1 and 80)
);

create unique index views_by_name on retoma.views (page, owner, name);

-- An operation concerns one batch, or every job that its filter finds. filter: which jobs, as JSON; null for a batch.
-- upto: the newest job when it was decided, so that it never reaches what was made later. exact: whether "wanted" was
-- counted to the end. skipped: how many jobs it passed over, by reason.
alter table retoma.operations
    alter column batch_id drop not null,
    add column filter json,
    add column upto bigint,
    add column exact boolean not null default true,
    add column skipped jsonb not null default '{}',
    drop constraint an_operation_has_a_kind,
    add constraint an_operation_has_a_kind check (kind in ('cancel', 'retry', 'restart', 'move', 'priority')) not valid,
    add constraint an_operation_concerns_a_batch_or_a_filter check ((batch_id is null) = (filter is not null)) not valid,
    add constraint a_filter_ends_at_a_job check ((filter is null) = (upto is null)) not valid;
