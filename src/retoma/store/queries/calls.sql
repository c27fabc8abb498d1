-- Calls: the intent is committed before a provider is asked, and the answer as it came before anybody reads it.

-- name: open
-- One statement decides: an equal request that was answered is given back; one that somebody else has under way is
-- waited for; one that was handed in, and whose result nobody looks for any more, is taken over with its operation;
-- else the intent is written, if the job is still ours (or no job asks) and its batch can pay. Two who come at the very
-- same moment are told apart by the index one_asks_and_others_wait: the second fails whole, and looks again. Other
-- intents whose worker is gone, or that an earlier attempt left, are in doubt. The purse is locked before calls, here
-- and below.
with mine as materialized (
    select job.id, job.batch_id
      from retoma.jobs as job
     where job.id = %(job_id)s::bigint
       and job.fence = %(fence)s::bigint
       and job.worker_id = %(worker_id)s::bigint
     union all
    select null, null
     where %(job_id)s::bigint is null
),
known as materialized (
    select call.id
      from retoma.calls as call
     where call.tenant = %(tenant)s::text
       and call.key = %(key)s::text
       and call.state = 'answered'
       and %(reuse)s::boolean
     order by call.id
     limit 1
),
asked as materialized (
    select call.id, call.worker_id, call.awaited_until,
           call.job_id = %(job_id)s::bigint and call.fence = %(fence)s::bigint as ours,
           (worker.id is not null or call.job_id is null) and call.awaited_until > clock_timestamp() as alive,
           call.request_id is not null
           and call.asked_at > clock_timestamp() - make_interval(secs => %(kept)s::float8) as handed_in
      from retoma.calls as call
      left join retoma.workers as worker
        on worker.id = call.worker_id
       and worker.stopped_at is null
       and worker.lease_expires_at > now()
     where call.tenant = %(tenant)s::text
       and call.key = %(key)s::text
       and call.state = 'open'
       and call.awaited_until is not null
       and %(reuse)s::boolean
),
left_behind as materialized (
    select asked.id, asked.worker_id, asked.awaited_until, asked.handed_in, true as fits
      from asked
      join mine on not asked.alive
     union
    -- Who wants another throw gets that of its own step back, and of no other.
    select call.id, call.worker_id, call.awaited_until,
           call.request_id is not null
           and call.asked_at > clock_timestamp() - make_interval(secs => %(kept)s::float8),
           call.step = %(step)s::text
      from mine
      join retoma.calls as call on call.job_id = mine.id
     where call.key = %(key)s::text
       and call.state = 'open'
       and (call.fence < %(fence)s::bigint or call.request_id is not null and call.step = %(step)s::text)
       and not exists (select from asked where asked.id = call.id)
),
found as materialized (
    select left_behind.id, left_behind.worker_id, left_behind.awaited_until
      from left_behind
     where left_behind.handed_in
       and left_behind.fits
       and not exists (select from known)
     order by left_behind.id
     limit 1
),
free as materialized (
    select mine.id, mine.batch_id
      from mine
     where not exists (select from known)
       and not exists (select from asked where asked.alive)
       and not exists (select from found)
),
budget as (
    update retoma.batches as batch
       set reserved = batch.reserved + %(reserved)s::numeric
      from free
     where batch.id = free.batch_id
       and (batch.budget is null or batch.spent + batch.reserved + %(reserved)s::numeric <= batch.budget)
    returning batch.id
),
doubt as (
    update retoma.calls as call
       set state = 'doubtful'
      from left_behind
     where call.id = left_behind.id
       and not left_behind.handed_in
       and call.state = 'open'
       and (select count(*) from budget) >= 0
    returning call.job_id
),
taken_over as (
    -- Of two who would take it over one does: what the other saw of it does not hold any more.
    update retoma.calls as call
       set worker_id = %(worker_id)s::bigint,
           fence = case when call.job_id = %(job_id)s::bigint then %(fence)s::bigint else call.fence end,
           awaited_until = case when %(reuse)s::boolean
                                then clock_timestamp() + make_interval(secs => %(patience)s::float8) end
      from found
     where call.id = found.id
       and call.state = 'open'
       and call.worker_id is not distinct from found.worker_id
       and call.awaited_until is not distinct from found.awaited_until
    returning call.id, call.request_id
),
doubts as materialized (
    select (select count(*) from doubt) as lost,
           (select count(*) from doubt where doubt.job_id = %(job_id)s::bigint)
           + (select count(*)
                from mine
                join retoma.calls as call on call.job_id = mine.id
               where call.key = %(key)s::text
                 and call.state = 'doubtful') as own
),
opened as (
    insert into retoma.calls (tenant, key, provider, model, job_id, batch_id, step, fence, worker_id, kind, request,
                              reserved, awaited_until)
    select %(tenant)s::text, %(key)s::text, %(provider)s::text, %(model)s::text, free.id, free.batch_id,
           %(step)s::text, %(fence)s::bigint, %(worker_id)s::bigint,
           case when %(kind)s::text = 'first' and doubts.lost + doubts.own > 0 then 'again' else %(kind)s::text end,
           %(request)s::json, %(reserved)s::numeric,
           case when %(reuse)s::boolean
                then clock_timestamp() + make_interval(secs => %(patience)s::float8) end
      from free
     cross join doubts
     where free.batch_id is null
        or exists (select from budget)
    returning id
),
reused as (
    update retoma.calls as call set reused = call.reused + 1 from known where call.id = known.id
)
select exists (select from mine) as mine,
       (select known.id from known) as known,
       coalesce((select opened.id from opened), (select taken_over.id from taken_over)) as opened,
       (select doubts.own from doubts) as doubts,
       (select batch.budget from retoma.batches as batch join mine on batch.id = mine.batch_id) as budget,
       coalesce((select asked.id from asked where asked.alive), (select found.id from found)) as asked,
       coalesce((select asked.worker_id = %(worker_id)s::bigint from asked), false) as here,
       coalesce((select asked.ours from asked), false) as ours,
       (select taken_over.request_id from taken_over) as operation;

-- name: withdraw
-- The request was not made after all; whoever says so knows, even if it was taken for doubtful. What was handed in was
-- made.
-- include: purse
withdrawn as (
    delete from retoma.calls as call
     where call.id = %(id)s::bigint
       and call.state in ('open', 'doubtful')
       and call.request_id is null
       and (select count(*) from purse) >= 0
    returning call.id, call.batch_id, call.reserved
),
settled as (
    update retoma.batches as batch
       set reserved = batch.reserved - withdrawn.reserved
      from withdrawn
     where batch.id = withdrawn.batch_id
)
select withdrawn.id from withdrawn;

-- name: accept
-- The provider took the request in and says by which name its result can be looked for: from here on nobody needs to
-- hand it in again. Not held to the fence, as the answer is not: it is paid.
update retoma.calls as call
   set request_id = %(request_id)s::text
 where call.id = %(id)s::bigint
   and call.state in ('open', 'doubtful')
returning call.id;

-- name: rest
-- Nobody looks for the result at the moment: whoever asks the same goes on with it at once, and need not wait for us.
update retoma.calls as call
   set awaited_until = case when call.awaited_until is not null then clock_timestamp() end,
       status = coalesce(%(status)s::smallint, call.status),
       error = coalesce(%(error)s::text, call.error),
       text = coalesce(%(text)s::text, call.text)
 where call.id = %(id)s::bigint
   and call.worker_id = %(worker_id)s::bigint
   and call.state = 'open'
   and call.request_id is not null
returning call.id;

-- name: answer
-- The answer as it came. Not held to the fence: whoever asked has paid, and the answer may serve another.
-- include: purse
answered as (
    update retoma.calls as call
       set state = 'answered',
           answer = %(answer)s::text,
           text = %(text)s::text,
           finish = %(finish)s::text,
           request_id = coalesce(%(request_id)s::text, call.request_id),
           status = null,
           error = null,
           cost = %(cost)s::numeric,
           input_tokens = %(input_tokens)s::integer,
           output_tokens = %(output_tokens)s::integer,
           cached_tokens = %(cached_tokens)s::integer,
           units = %(units)s::integer,
           answered_at = clock_timestamp()
     where call.id = %(id)s::bigint
       and call.state in ('open', 'doubtful')
       and (select count(*) from purse) >= 0
    returning call.id, call.batch_id, call.reserved, call.cost
),
settled as (
    update retoma.batches as batch
       set reserved = batch.reserved - answered.reserved,
           spent = batch.spent + answered.cost
      from answered
     where batch.id = answered.batch_id
)
select answered.id from answered;

-- name: fail
-- No answer. When it is sure that nothing was billed, nothing stays reserved; when it is sure that it was, what was
-- reserved is spent; else the money is in doubt.
-- include: purse
failed as (
    update retoma.calls as call
       set state = case when %(paid)s::boolean is null then 'doubtful' else 'failed' end,
           cost = case when %(paid)s::boolean then call.reserved end,
           status = %(status)s::smallint,
           error = %(error)s::text,
           text = %(text)s::text
     where call.id = %(id)s::bigint
       and call.state in ('open', 'doubtful')
       and (select count(*) from purse) >= 0
    returning call.id, call.batch_id, call.reserved, call.cost, call.state
),
settled as (
    update retoma.batches as batch
       set reserved = batch.reserved - failed.reserved,
           spent = batch.spent + coalesce(failed.cost, 0)
      from failed
     where batch.id = failed.batch_id
       and failed.state = 'failed'
)
select failed.id from failed;

-- name: one
select call.id, call.tenant, call.key, call.provider, call.model, call.job_id, call.batch_id, call.step, call.kind,
       call.state, call.request::text as request, call.answer, call.text, call.finish, call.request_id, call.status,
       call.error, call.reserved, call.cost, call.input_tokens, call.output_tokens, call.cached_tokens, call.units,
       call.reused, call.asked_at, call.answered_at
  from retoma.calls as call
 where call.id = %(id)s::bigint;

-- name: page
select call.id, call.tenant, call.key, call.provider, call.model, call.job_id, call.batch_id, call.step, call.kind,
       call.state, call.request::text as request, call.answer, call.text, call.finish, call.request_id, call.status,
       call.error, call.reserved, call.cost, call.input_tokens, call.output_tokens, call.cached_tokens, call.units,
       call.reused, call.asked_at, call.answered_at
  from retoma.calls as call
 where (%(job_id)s::bigint is null or call.job_id = %(job_id)s::bigint)
   and (%(batch_id)s::bigint is null or call.batch_id = %(batch_id)s::bigint)
   and (%(state)s::text is null or call.state = %(state)s::text)
   and (%(provider)s::text is null or call.provider = %(provider)s::text)
   and (%(before)s::bigint is null or call.id < %(before)s::bigint)
 order by call.id desc
 limit %(limit)s::integer;

-- name: abandon
-- Requests whose executor is gone, and whose answer nobody awaits any more, are in doubt; what was handed in can still
-- be looked for, but no provider keeps it for two days.
with lost as materialized (
    select call.id
      from retoma.calls as call
      left join retoma.workers as worker
        on worker.id = call.worker_id
       and worker.stopped_at is null
       and worker.lease_expires_at > now()
     where call.state = 'open'
       and (call.request_id is null or call.asked_at < now() - interval '2 days')
       and worker.id is null
       and coalesce(call.awaited_until, call.asked_at + interval '10 minutes') < now()
     order by call.id
     limit %(limit)s::integer
       for update of call skip locked
)
update retoma.calls as call
   set state = 'doubtful'
  from lost
 where call.id = lost.id
returning call.id;

-- name: spend
-- What was paid, told apart: useful, paid again (repairs, and requests whose first answer was lost), lost (billed, and no
-- answer came of it), and in doubt.
select case %(by)s::text
           when 'provider' then call.provider
           when 'model' then call.provider || '/' || call.model
           when 'day' then to_char(call.asked_at at time zone 'UTC', 'YYYY-MM-DD')
           when 'step' then coalesce(call.step, '')
           when 'batch' then coalesce(call.batch_id::text, '')
           when 'job' then coalesce(call.job_id::text, '')
       end as name,
       count(*) as calls,
       count(*) filter (where call.state = 'answered') as answered,
       coalesce(sum(call.reused), 0)::bigint as reused,
       coalesce(sum(call.cost) filter (where call.state = 'answered' and call.kind = 'first'), 0) as useful,
       coalesce(sum(call.cost) filter (where call.state = 'answered' and call.kind <> 'first'), 0) as again,
       coalesce(sum(call.cost) filter (where call.state <> 'answered'), 0) as lost,
       coalesce(sum(call.reserved) filter (where call.state in ('open', 'doubtful')), 0) as doubtful,
       sum(call.input_tokens)::bigint as input_tokens,
       sum(call.output_tokens)::bigint as output_tokens
  from retoma.calls as call
 where (%(batch_id)s::bigint is null or call.batch_id = %(batch_id)s::bigint)
   and (%(since)s::timestamptz is null or call.asked_at >= %(since)s::timestamptz)
 group by 1
 order by 1;

-- name: price
-- The price that holds today.
select price.provider, price.model, price.since, price.input, price.cached, price.output, price.unit, price.source
  from retoma.prices as price
 where price.provider = %(provider)s::text
   and price.model = %(model)s::text
   and price.since <= current_date
 order by price.since desc
 limit 1;

-- name: prices
select distinct on (price.provider, price.model)
       price.provider, price.model, price.since, price.input, price.cached, price.output, price.unit, price.source
  from retoma.prices as price
 where price.since <= current_date
 order by price.provider, price.model, price.since desc;

-- name: set_price
insert into retoma.prices (provider, model, since, input, cached, output, unit, source)
values (%(provider)s::text, %(model)s::text, coalesce(%(since)s::date, current_date), %(input)s::numeric,
        %(cached)s::numeric, %(output)s::numeric, %(unit)s::numeric, %(source)s::text)
on conflict (provider, model, since) do update
   set input = excluded.input,
       cached = excluded.cached,
       output = excluded.output,
       unit = excluded.unit,
       source = excluded.source
 where %(replace)s::boolean
returning provider, model, since, input, cached, output, unit, source;

-- name: prune
-- What was asked long ago, for a batch or a job that is gone. Until then its answer serves whoever asks the same.
with old as materialized (
    select call.id
      from retoma.calls as call
     where call.asked_at < now() - make_interval(secs => %(older_than)s::float8)
       and not exists (select from retoma.jobs as job where job.id = call.job_id)
       and not exists (select from retoma.batches as batch where batch.id = call.batch_id)
     order by call.id
     limit %(limit)s::integer
       for update skip locked
)
delete from retoma.calls as call using old where call.id = old.id
returning call.id;
