alter table retoma.batches add column if not exists traceparent text;
