alter table retoma.limits drop column failed_at;
