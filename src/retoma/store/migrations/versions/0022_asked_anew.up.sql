-- retried_fence    the fence at a person's last retry: answers from before that did not fit are asked for anew
-- restarted_fence  the fence at a person's last restart: a step's own answers from before are not looked for
alter table retoma.jobs
    add column retried_fence bigint,
    add column restarted_fence bigint;
