drop index concurrently if exists retoma.calls_unpriced;
create index concurrently calls_unpriced on retoma.calls (id) where cost_basis = 'unpriced';
