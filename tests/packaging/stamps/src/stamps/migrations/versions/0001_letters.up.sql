create table stamps.letters (
    number integer generated always as identity primary key,
    job_id bigint not null unique,
    text   text not null
);
