-- Those that sleep until a provider may be asked, so that they can be woken when it may be sooner.
drop index concurrently if exists retoma.jobs_limited;
create index concurrently jobs_limited on retoma.jobs (reason, run_at)
    where state = 'queued' and reason like 'limited: %';
