-- An item may be shown by up to five photographs: the first is in the row as it was, the others are beside it.
alter table quotes.quote_requests
    add column input_more json,
    add constraint more_photographs_follow_a_first check (
        input_more is null
        or (input_blob is not null and json_typeof(input_more) = 'array'
            and json_array_length(input_more) between 1 and 4)) not valid;

comment on column quotes.quote_requests.input_more is 'the photographs after the first: blob, sha256 and kind of each';
