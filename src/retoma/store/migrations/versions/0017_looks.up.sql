-- The watchdog takes those first that nobody has looked at for the longest time. No index: it changes with every look,
-- and only batches at work are sorted by it.
alter table retoma.batches add column looked_at timestamptz;
