-- A price that is null is that of the kind which this one is part of: old rows mean what they meant.
alter table retoma.prices
    add column cache_write numeric,
    add column cache_write_1h numeric,
    add column reasoning numeric,
    add column audio_input numeric,
    add column audio_output numeric;
