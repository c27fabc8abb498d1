drop table retoma.replies;
drop table retoma.api_keys;
