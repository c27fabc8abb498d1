alter table retoma.limits drop column turn_at;
