-- A queue that is paused until a time stays paused after this, until somebody resumes it.
alter table retoma.queues drop column paused_until;
