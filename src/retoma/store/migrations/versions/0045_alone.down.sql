alter table retoma.jobs drop column alone;
