-- Sign-ins that failed. A try is counted as a failure before the password is compared, and taken back when it was
-- right: of a thousand tries at the same moment, no more are compared than are allowed one after the other.

-- name: begin
-- Counts a try for each subject, unless one of them is refused now; then nothing is counted, so that whoever is refused
-- by their address cannot lock an account. The first failures are free; each further one doubles the wait. Failures are
-- forgotten some time after the last. Rows are locked in the order of their names, so that nothing deadlocks.
with wanted as materialized (
    select wanted.subject, wanted.free, wanted.forgotten
      from unnest(%(subjects)s::text[], %(free)s::integer[], %(forgotten)s::float8[])
           as wanted (subject, free, forgotten)
     order by wanted.subject
),
held as materialized (
    select tried.subject, tried.refused_until
      from retoma.tries as tried
     where tried.subject in (select wanted.subject from wanted)
     order by tried.subject
       for no key update
),
refused as materialized (
    select max(held.refused_until) as until
      from held
     where held.refused_until > now()
),
counted as (
    insert into retoma.tries as tried (subject, failures, refused_until)
    select wanted.subject, 1,
           case when wanted.free <= 1 then now() + make_interval(secs => %(first)s::float8) end
      from wanted
     cross join refused
     where refused.until is null
     order by wanted.subject
    on conflict (subject) do update
       set failures = case when tried.last_at < now() - make_interval(
                                      secs => (select wanted.forgotten from wanted
                                                where wanted.subject = tried.subject))
                           then 1 else tried.failures + 1 end,
           last_at = now(),
           refused_until = case
               when tried.last_at < now() - make_interval(
                        secs => (select wanted.forgotten from wanted where wanted.subject = tried.subject))
               then null
               when tried.failures + 1 >= (select wanted.free from wanted where wanted.subject = tried.subject)
               then now() + make_interval(secs => least(
                        %(longest)s::float8,
                        %(first)s::float8 * power(2, least(tried.failures + 1 - (
                            select wanted.free from wanted where wanted.subject = tried.subject), 30))))
           end
)
select extract(epoch from refused.until - now())::float8 as refused_for
  from refused;

-- name: right
-- The password was right: the name starts anew, and the address is as it was before.
with forgotten as (
    delete from retoma.tries as tried
     where tried.subject = %(name)s::text
)
update retoma.tries as tried
   set failures = greatest(tried.failures - 1, 0),
       refused_until = case when tried.failures - 1 >= %(free)s::integer then tried.refused_until end
 where tried.subject = %(address)s::text
returning tried.subject;

-- name: forget
delete from retoma.tries as tried
 where tried.subject = %(subject)s::text
returning tried.subject;

-- name: refused
-- Of these subjects, those that are refused now, and for how many seconds.
select tried.subject, extract(epoch from tried.refused_until - now())::float8 as seconds
  from retoma.tries as tried
 where tried.subject = any (%(subjects)s::text[])
   and tried.refused_until > now();

-- name: prune
delete from retoma.tries as tried
 where tried.subject in (select old.subject
                           from retoma.tries as old
                          where old.last_at < now() - make_interval(secs => %(older_than)s::float8)
                          limit %(limit)s::integer)
returning tried.subject;
