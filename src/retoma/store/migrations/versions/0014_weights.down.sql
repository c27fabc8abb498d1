alter table retoma.queues drop column weight;
