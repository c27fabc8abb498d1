drop index concurrently if exists retoma.jobs_by_fingerprint;
drop index concurrently if exists retoma.jobs_by_correlation;
drop index concurrently if exists retoma.operations_by_age;
