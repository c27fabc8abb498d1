-- When the next who is sent away may come back; those after it come one after the other.
alter table retoma.limits add column turn_at timestamptz;
