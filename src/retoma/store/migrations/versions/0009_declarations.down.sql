alter table retoma.schedules drop column declared;
