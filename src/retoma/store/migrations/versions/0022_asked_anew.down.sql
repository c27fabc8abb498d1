alter table retoma.jobs
    drop column retried_fence,
    drop column restarted_fence;
