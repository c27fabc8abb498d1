-- Rounds: which of the fleet makes them, and how a worker that is gone altogether is known before its lease is over.
--
-- duties   one row per round that somebody must make; whoever takes the row makes it. The row of the sweep also tells
--          when the database was last reached, so that every sweeper knows of an outage, newcomers included
--
-- Of a worker: the key of the session lock that its connections hold, and where its supervisor runs, so that a sweeper
-- on the same machine can look for the process itself.

create table retoma.duties (
    name             text primary key,
    last_at          timestamptz,
    taken_by         text
) with (fillfactor = 50);

insert into retoma.duties (name) values ('sweep'), ('look_after'), ('mend'), ('rest_lanes');

alter table retoma.workers
    add column hint bigint,
    add column machine text,
    add column supervisor integer,
    add column supervisor_started bigint,
    add column missing_since timestamptz,
    add column spared_at timestamptz;
