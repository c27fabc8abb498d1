drop table quotes.index_tables;
alter table quotes.quote_requests
    drop constraint a_condition_can_be,
    drop constraint a_condition_is_whole,
    drop column book_value,
    drop column years_left,
    drop column years_used,
    drop column conservation;
