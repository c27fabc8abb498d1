-- How many turns a queue has for one turn of the others.
alter table retoma.queues
    add column weight integer not null default 1,
    add constraint a_weight_is_at_least_one check (weight between 1 and 1000) not valid;
