-- Old rows kept the same promises under their old words; work goes on while they are looked at.
alter table retoma.jobs
    validate constraint a_state_has_a_name,
    validate constraint attempts_are_within_their_limit,
    validate constraint only_an_ended_job_has_finished;
