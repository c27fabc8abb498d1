-- Cancel or complete the batches that still wait for a last step before: an older program knows nothing of it, and counts
-- its job among the others. The move that was added stays; nothing older makes it.
alter table retoma.batches
    drop column finish,
    drop column finish_job_id,
    drop column finish_lane_id,
    drop column finishing,
    drop column finish_owed,
    drop column finish_run,
    drop column finish_slack,
    drop column finish_well;
