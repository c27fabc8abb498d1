drop table retoma.permits;
drop table retoma.limits;
drop table retoma.prices;
alter table retoma.batches drop column reserved;
drop table retoma.calls;
