-- A command on a large batch is decided in one short transaction and carried out in many: this row says what is still
-- to be done, from which job on. Whoever finds it unfinished may go on with it.
create table retoma.operations (
    id               bigint generated always as identity primary key,
    batch_id         bigint not null,
    kind             text not null,
    asked_by         text,
    asked            json not null default '{}',
    after            bigint not null default 0,
    left_over        bigint[] not null default '{}',
    wanted           integer not null,
    done             integer not null default 0,
    started_at       timestamptz not null default now(),
    finished_at      timestamptz,
    error            text,
    constraint an_operation_has_a_kind check (kind in ('cancel', 'retry', 'restart'))
);

create unique index one_operation_at_a_time on retoma.operations (batch_id) where finished_at is null;
create index operations_of_batch on retoma.operations (batch_id, id);

-- operation_id: the operation under way; the batch is not completed before that is. pruned_at: since when it is being
-- removed; nobody sees it or acts on it any more.
alter table retoma.batches
    add column operation_id bigint,
    add column pruned_at timestamptz;
