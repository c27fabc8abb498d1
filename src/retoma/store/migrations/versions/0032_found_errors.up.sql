-- Built beside the work, one after the other. The first keeps what equal errors have in common, as the block "fingerprint"
-- of shared.sql says it: a query finds this index only when it says the same.
drop index concurrently if exists retoma.jobs_by_fingerprint;
create index concurrently jobs_by_fingerprint on retoma.jobs ((
    substr(md5(regexp_replace(
        regexp_replace(left(split_part(coalesce(error, reason, ''), E'\n', 1), 500),
                       '''[^'']*''|"[^"]*"|[^[:space:]:]+\.[[:alnum:]]{2,4}\y', '…', 'g'),
        '[0-9a-fA-F-]*[0-9][0-9a-fA-F-]*', '#', 'g')), 1, 12)), finished_at) where state = 'failed';

drop index concurrently if exists retoma.jobs_by_correlation;
create index concurrently jobs_by_correlation on retoma.jobs (correlation_id, id) where correlation_id is not null;

drop index concurrently if exists retoma.operations_by_age;
create index concurrently operations_by_age on retoma.operations (finished_at) where batch_id is null;
