alter table retoma.classifications
    drop column decided_by,
    drop column decided_at,
    drop column proposed;
drop table retoma.decisions;
drop function retoma.decisions_stay();
drop table retoma.reviews;
