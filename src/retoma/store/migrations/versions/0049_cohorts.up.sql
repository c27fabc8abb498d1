-- cohorts           the configurations of a batch that was re-planned: number 1 is the one it was created with. A batch
--                   that was never re-planned has no rows, and all its jobs run under the configuration in its own row
-- batches.cohort    the number of its newest configuration, which is the one in its row
create table retoma.cohorts (
    batch_id         bigint not null,
    number           smallint not null,
    configuration    json not null,
    since            timestamptz not null default now(),
    planned_by       text,
    note             text,
    primary key (batch_id, number)
);

alter table retoma.batches add column cohort smallint not null default 1;
