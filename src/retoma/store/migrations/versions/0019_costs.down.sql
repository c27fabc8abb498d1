drop table retoma.spending;
drop table retoma.tier_prices;
alter table retoma.calls
    drop constraint an_unknown_cost_says_why,
    drop constraint an_answered_call_has_its_answer,
    add constraint an_answered_call_has_its_answer check (
        (state = 'answered') = (answer is not null and cost is not null and answered_at is not null)) not valid,
    drop column pipeline,
    drop column tier,
    drop column cost_basis,
    drop column cache_write_tokens,
    drop column cache_write_1h_tokens,
    drop column reasoning_tokens,
    drop column audio_input_tokens,
    drop column audio_output_tokens;
