alter table retoma.batches drop column cohort;
drop table retoma.cohorts;
