drop table quotes.report_jobs;
