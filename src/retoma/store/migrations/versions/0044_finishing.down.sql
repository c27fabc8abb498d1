drop index concurrently if exists retoma.batches_finishing;
