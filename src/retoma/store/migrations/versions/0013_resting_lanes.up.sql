-- awake           a claim looks at it; who puts a job into the lane sets it, and only a duty takes it away
-- wake_at         while it rests: when the first of its jobs is due
-- kept            it has a setting of its own, and stays when it is empty (those that are there already stay)
-- unseated_since  it was given a limit while jobs ran in it that have no place
alter table retoma.lanes
    add column awake boolean not null default true,
    add column wake_at timestamptz,
    add column kept boolean not null default true,
    add column unseated_since timestamptz,
    alter column kept set default false;
