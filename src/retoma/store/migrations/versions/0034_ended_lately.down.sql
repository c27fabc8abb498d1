drop index concurrently if exists retoma.jobs_ended_lately;
