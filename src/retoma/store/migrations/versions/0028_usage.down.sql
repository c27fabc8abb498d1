drop table retoma.submissions;
drop table retoma.usage;
