alter table retoma.lanes
    drop column awake,
    drop column wake_at,
    drop column kept,
    drop column unseated_since;
