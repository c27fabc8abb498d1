alter table retoma.jobs
    drop constraint a_state_has_a_name,
    drop constraint attempts_are_within_their_limit,
    drop constraint only_an_ended_job_has_finished,
    add constraint a_state_has_a_name check (
        state in ('queued', 'running', 'completed', 'skipped', 'failed', 'review', 'cancelled')) not valid,
    add constraint attempts_are_within_their_limit check (
        attempt between 0 and max_attempts and (state <> 'queued' or attempt < max_attempts)) not valid,
    add constraint only_an_ended_job_has_finished check (
        (finished_at is not null) = (state in ('completed', 'skipped', 'failed', 'review', 'cancelled'))) not valid;
