-- What callers over HTTP use of what they are allowed. Written only where a quota is set.
--
-- usage         bytes and files of one day, in UTC; a new day begins in the same row
-- submissions   which jobs and batches a caller has queued; those that have ended are forgotten when it is counted

create table retoma.usage (
    caller           text primary key,
    day              date not null,
    bytes            bigint not null,
    files            bigint not null,
    constraint nobody_has_sent_less_than_nothing check (bytes >= 0 and files >= 0)
) with (fillfactor = 50);

create table retoma.submissions (
    caller           text not null,
    kind             text not null,
    id               bigint not null,
    primary key (caller, kind, id),
    constraint a_submission_is_a_job_or_a_batch check (kind in ('job', 'batch'))
);
