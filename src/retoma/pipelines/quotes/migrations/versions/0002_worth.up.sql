-- In what condition an asset is: all of it is known, or nothing. The value follows from it and from the terms of the
-- project, so no value is kept here.
alter table quotes.quote_requests
    add column conservation text,
    add column years_used integer,
    add column years_left integer,
    add column book_value numeric(14, 2),
    add constraint a_condition_is_whole check (
        (conservation is null) = (years_used is null) and (conservation is null) = (years_left is null)
        and (conservation is not null or book_value is null)) not valid,
    add constraint a_condition_can_be check (
        conservation in ('BOM', 'REGULAR', 'RUIM') and years_used between 0 and 200
        and years_left between 0 and 200 and (book_value is null or book_value >= 0)) not valid;

comment on column quotes.quote_requests.years_left is 'how many more years the asset can be used';

-- The files of price indices (IPCA, IGP-M), each as it was loaded. A newer file is a new row.
create table quotes.index_tables (
    id          bigint generated always as identity primary key,
    index       text not null,
    source      text not null,
    dated       date not null,
    first_month text not null,
    last_month  text not null,
    content     text not null,
    sha256      text not null unique,
    loaded_by   text not null,
    loaded_at   timestamptz not null default now(),
    constraint an_index_has_a_name check (index in ('IPCA', 'IGP-M')),
    constraint a_table_says_where_it_is_from check (source <> '')
);

create index index_tables_newest on quotes.index_tables (index, dated, id);
