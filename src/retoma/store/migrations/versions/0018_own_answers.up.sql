-- own_until  until when its own step waits for the answer, where no other job may have it (reuse=False)
-- unfit_at   when its answer was found not to fit its type: no other job gets it
alter table retoma.calls
    add column own_until timestamptz,
    add column unfit_at timestamptz;
