-- Pilots.
--
-- batches.pilot_lane_id   a second lane of the batch, with the jobs of its pilot; it opens and closes with the batch
-- batches.held_at         while it is set, the first lane stays closed: the other jobs wait until they are released

alter table retoma.batches
    add column pilot_lane_id bigint,
    add column held_at timestamptz;
