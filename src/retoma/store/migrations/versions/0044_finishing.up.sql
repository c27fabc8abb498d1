-- What the watchdog looks after: the batches whose last step is still to come.
drop index concurrently if exists retoma.batches_finishing;
create index concurrently batches_finishing on retoma.batches (id) where finishing in ('waiting', 'open') or finish_owed;
