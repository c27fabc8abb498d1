alter table retoma.batches drop column if exists traceparent;
