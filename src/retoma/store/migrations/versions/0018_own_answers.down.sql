alter table retoma.calls
    drop column own_until,
    drop column unfit_at;
