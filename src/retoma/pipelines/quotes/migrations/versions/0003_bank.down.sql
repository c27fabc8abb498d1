drop table quotes.bank_updates;
alter table quotes.price_bank
    drop constraint an_update_mode_has_a_name,
    drop column update_mode;
