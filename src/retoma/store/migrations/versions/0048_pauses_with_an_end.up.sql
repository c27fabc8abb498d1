-- When a paused queue goes on by itself; null while nobody has said. It says nothing of a queue that is not paused: a
-- program of before resumes a queue and leaves it there.
alter table retoma.queues add column paused_until timestamptz;
