-- When the last failure was counted: requests that were under way at that moment do not count.
alter table retoma.limits add column failed_at timestamptz;
