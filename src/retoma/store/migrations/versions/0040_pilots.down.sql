-- Release what is held before: a batch that is held here goes on after it was paused and resumed.
alter table retoma.batches
    drop column pilot_lane_id,
    drop column held_at;
