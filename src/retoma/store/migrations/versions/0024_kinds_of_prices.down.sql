alter table retoma.prices
    drop column cache_write,
    drop column cache_write_1h,
    drop column reasoning,
    drop column audio_input,
    drop column audio_output;
