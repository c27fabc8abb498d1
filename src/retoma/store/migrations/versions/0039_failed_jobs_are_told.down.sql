drop trigger webhook_of_job on retoma.jobs;
drop function retoma.webhook_of_job();
