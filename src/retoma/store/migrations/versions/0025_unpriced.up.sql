-- How many of its calls were billed at a cost that nobody knows: what it has spent does not count them.
alter table retoma.batches add column unpriced integer not null default 0;
