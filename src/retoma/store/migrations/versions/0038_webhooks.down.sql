drop trigger webhook_of_batch on retoma.batches;
drop function retoma.webhook_of_batch();
drop function retoma.webhook_message(text, jsonb);
drop table retoma.webhook_attempts;
drop table retoma.webhook_deliveries;
drop table retoma.webhook_endpoints;
