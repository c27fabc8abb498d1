drop index concurrently if exists retoma.calls_unpriced;
