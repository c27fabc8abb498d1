-- Jobs whose code was on the processor when their executor died, and jobs that were beside many deaths: they run alone,
-- as those do that were there when two executors died (crashes >= 2).
alter table retoma.jobs add column alone boolean not null default false;
