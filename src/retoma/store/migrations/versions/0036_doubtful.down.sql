drop index concurrently if exists retoma.classifications_doubtful;
