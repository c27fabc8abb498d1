drop table retoma.audit;
drop function retoma.audit_stays();
drop table retoma.sessions;
alter table retoma.api_keys
    drop column previous_hash,
    drop column previous_until,
    drop column rotated_at;
