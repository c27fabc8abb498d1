-- Under which configuration of its batch the job runs; the first is 1.
alter table retoma.jobs add column cohort smallint not null default 1;
