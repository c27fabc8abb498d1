drop index concurrently if exists retoma.jobs_limited;
