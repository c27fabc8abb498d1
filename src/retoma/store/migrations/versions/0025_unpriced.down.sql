alter table retoma.batches drop column unpriced;
