alter table quotes.quote_requests
    drop constraint more_photographs_follow_a_first,
    drop column input_more;
