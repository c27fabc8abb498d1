-- Sessions of users stay as rows that open nothing.
drop table retoma.sign_ins;
drop table retoma.tries;
drop table retoma.users;
alter table retoma.sessions
    drop constraint a_session_of_a_user_names_them,
    drop constraint a_session_is_opened_in_one_of_four_ways,
    drop column user_id,
    add constraint a_session_is_opened_in_one_of_three_ways
        check (opened_by in ('key', 'environment', 'token')) not valid;
