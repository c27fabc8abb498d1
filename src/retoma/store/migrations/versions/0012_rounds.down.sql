-- Sweepers of before know of no duties: each makes every round.
alter table retoma.workers
    drop column hint,
    drop column machine,
    drop column supervisor,
    drop column supervisor_started,
    drop column missing_since,
    drop column spared_at;
drop table retoma.duties;
