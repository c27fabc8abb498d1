-- Failed jobs are told. The trigger runs only for a job that fails for good, and not for the house's own.

create function retoma.webhook_of_job() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
    perform retoma.webhook_message('job.failed', jsonb_build_object(
        'job_id', new.id, 'batch_id', new.batch_id, 'pipeline', new.pipeline, 'queue', new.queue,
        'key', left(new.key, 500), 'attempt', new.attempt, 'max_attempts', new.max_attempts,
        'correlation_id', left(new.correlation_id, 200)));
    return null;
end
$$;

create trigger webhook_of_job after update of state on retoma.jobs for each row
    when (new.state = 'failed' and old.state <> 'failed' and new.queue <> 'retoma')
    execute function retoma.webhook_of_job();
