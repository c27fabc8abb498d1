alter table retoma.batches drop column looked_at;
