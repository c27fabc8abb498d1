-- Last steps. All of these columns are null in a batch that has none.
--
-- batches.finish          what was declared: pipeline, share of the jobs, attempts, time-out, priority
-- batches.finish_job_id   the job of the last step; sealing the batch creates it. It is in no count of the batch
-- batches.finish_lane_id  a lane of the batch with this job alone; it is open while the job may be claimed
-- batches.finishing       waiting (for the other jobs), open (may be claimed, or runs), ended, failed
-- batches.finish_owed     the job's row must still follow: the last step runs once more, or not at all
-- batches.finish_run      which run of it this is; the first is 1
-- batches.finish_slack    how many jobs may be unfinished when its first run begins
-- batches.finish_well     how many jobs are completed, skipped or in review

insert into retoma.batch_moves (before, after) values ('paused', 'failed') on conflict do nothing;

alter table retoma.batches
    add column finish json,
    add column finish_job_id bigint,
    add column finish_lane_id bigint,
    add column finishing text,
    add column finish_owed boolean,
    add column finish_run integer,
    add column finish_slack integer,
    add column finish_well integer;
