-- Few of all results: the review desk asks for them again and again.
drop index concurrently if exists retoma.classifications_doubtful;
create index concurrently classifications_doubtful on retoma.classifications (id)
    where confidence = 'baixa' and decided_at is null;
