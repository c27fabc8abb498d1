-- Calls: the intent is committed before the request is sent, and the raw answer before it is parsed.

-- name: open
-- One statement decides for many intents, each by itself. An equal request that was answered returns that answer. An
-- equal request in flight elsewhere is waited for. A submitted operation that nobody polls any more is taken over. In
-- all other cases the intent is written, if this worker still holds the job (or the call is outside a job) and the
-- batch can pay. Without reuse, a call finds only answers and operations of its own step, from any attempt. An unfit
-- answer is returned only to the job that asked for it, and only until a person retries the job. Of two concurrent
-- equal intents the index one_asks_and_others_wait lets one in: the other writes nothing, and looks again. Other
-- intents whose worker is gone, or that an earlier attempt left, become doubtful. Locks are taken in one order, here
-- and below: batches by id, calls by id, then new keys in key order. Subqueries with *in* are hashed, joins are not.
with said as materialized (
    select said.*
      from unnest(%(keys)s::text[], %(providers)s::text[], %(models)s::text[], %(jobs)s::bigint[], %(fences)s::bigint[],
                  %(steps)s::text[], %(kinds)s::text[], %(requests)s::text[], %(reserved)s::numeric[],
                  %(reuse)s::boolean[], %(before)s::boolean[], %(patience)s::float8[], %(kept)s::float8[])
           with ordinality
           as said (key, provider, model, job_id, fence, step, kind, request, reserved, reuse, before, patience, kept,
                    place)
),
mine as materialized (
    select said.*, job.batch_id, job.pipeline,
           coalesce(job.retried_fence, 0) as retried,
           coalesce(job.restarted_fence, 0) as restarted,
           case when said.reuse
                then (select min(call.id + 0)  -- + 0 makes the planner use the key: for the plain id it would scan from the oldest call
                        from retoma.calls as call
                       where call.tenant = %(tenant)s::text
                         and call.key = said.key
                         and call.state = 'answered'
                         and call.unfit_at is null) end as shared
      from said
      left join retoma.jobs as job
        on job.id = said.job_id
       and job.fence = said.fence
       and job.worker_id = %(worker_id)s::bigint
     where said.job_id is null
        or job.id is not null
),
own as materialized (
    -- What this job itself has asked before.
    select mine.place, call.id, call.state, call.worker_id, call.fence, call.request_id, call.asked_at,
           call.awaited_until, call.own_until,
           call.cost > 0 or call.cost is null and call.cost_basis is not null as billed,
           call.step = mine.step as fits,
           call.unfit_at is not null as unfit
      from mine
      join retoma.calls as call on call.job_id = mine.job_id
     where mine.before
       and mine.shared is null
       and call.tenant = %(tenant)s::text
       and call.key = mine.key
),
judged as materialized (
    select mine.*,
           coalesce(mine.shared,
                    (select max(own.id)
                       from own
                      where own.place = mine.place
                        and own.state = 'answered'
                        and case when mine.reuse then own.unfit and own.fence > mine.retried
                                 else own.fits and not own.unfit and own.fence > mine.restarted end)) as known
      from mine
),
asked as materialized (
    select mine.place, call.id, call.worker_id, call.awaited_until, call.own_until,
           true as fits,
           call.job_id = mine.job_id and call.fence = mine.fence as ours,
           call.fence < mine.fence as earlier,
           call.awaited_until > clock_timestamp()
           and (call.job_id is null
                or exists (select from retoma.workers as worker
                            where worker.id = call.worker_id
                              and worker.stopped_at is null
                              and worker.lease_expires_at > now())) as alive,
           call.request_id is not null
           and call.asked_at > clock_timestamp() - make_interval(secs => mine.kept) as handed_in
      from mine
     cross join lateral (
           -- There is at most one. The limit makes the planner look it up by key, and not among all open calls.
           select open.*
             from retoma.calls as open
            where open.tenant = %(tenant)s::text
              and open.key = mine.key
              and open.state = 'open'
              and open.awaited_until is not null
            limit 1) as call
     where mine.reuse
     union all
    select mine.place, own.id, own.worker_id, own.awaited_until, own.own_until, own.fits, own.fence = mine.fence,
           own.fence < mine.fence,
           coalesce(own.own_until, own.awaited_until) > clock_timestamp()
           and exists (select from retoma.workers as worker
                        where worker.id = own.worker_id
                          and worker.stopped_at is null
                          and worker.lease_expires_at > now()),
           own.request_id is not null
           and own.asked_at > clock_timestamp() - make_interval(secs => mine.kept)
      from own
      join mine on mine.place = own.place
     where own.state = 'open'
       and not (mine.reuse and own.awaited_until is not null)
),
awaited as materialized (
    select distinct on (asked.place) asked.*
      from asked
     where asked.alive
       and asked.fits
     order by asked.place, asked.id
),
left_behind as materialized (
    select asked.*
      from asked
     where not asked.alive
       and (asked.fits or asked.earlier)
),
found as materialized (
    select distinct on (left_behind.place) left_behind.*
      from left_behind
     where left_behind.handed_in
       and left_behind.fits
       and left_behind.place not in (select judged.place from judged where judged.known is not null)
       and left_behind.place not in (select awaited.place from awaited)
     order by left_behind.place, left_behind.id
),
sorted as materialized (
    select judged.*,
           judged.known is null
           and judged.place not in (select awaited.place from awaited)
           and judged.place not in (select found.place from found) as free
      from judged
),
purse as materialized (
    select batch.id, batch.budget, batch.budget - batch.spent - batch.reserved as rest
      from retoma.batches as batch
     where batch.id in (select sorted.batch_id from sorted where sorted.free)
     order by batch.id
       for no key update
),
touched as materialized (
    select call.id
      from retoma.calls as call
     where call.id in (select left_behind.id from left_behind
                        union all
                       select judged.known from judged where judged.known is not null)
       and (select count(*) from purse) >= 0
     order by call.id
       for no key update
),
paid as materialized (
    select sorted.*, purse.budget,
           case when sorted.free then nextval('retoma.calls_id_seq') end as id,
           sorted.free
           and (sorted.batch_id is null
                or purse.id is not null
                   and coalesce(sum(case when sorted.free then sorted.reserved end)
                                    over (partition by sorted.batch_id order by sorted.place) <= purse.rest, true))
               as pays
      from sorted
      left join purse on purse.id = sorted.batch_id
),
doubt as (
    update retoma.calls as call
       set state = 'doubtful'
      from left_behind
     where call.id = left_behind.id
       and not left_behind.handed_in
       and call.state = 'open'
       and (select count(*) from touched) >= 0
    returning call.id, call.job_id
),
taken_over as (
    -- Compare-and-set on worker_id, awaited_until and own_until, so only one of two concurrent callers
    -- takes the call over.
    update retoma.calls as call
       set worker_id = %(worker_id)s::bigint,
           fence = case when call.job_id = mine.job_id then mine.fence else call.fence end,
           awaited_until = case when mine.reuse then clock_timestamp() + make_interval(secs => mine.patience) end,
           own_until = case when not mine.reuse then clock_timestamp() + make_interval(secs => mine.patience) end
      from found
      join mine on mine.place = found.place
     where call.id = found.id
       and call.state = 'open'
       and call.worker_id is not distinct from found.worker_id
       and call.awaited_until is not distinct from found.awaited_until
       and call.own_until is not distinct from found.own_until
       and (select count(*) from touched) >= 0
    returning call.id, call.request_id
),
again as materialized (
    -- What was paid before, or may have been: by this job, or by another whose answer becomes doubtful here.
    select left_behind.place, doubt.job_id
      from left_behind
      join doubt on doubt.id = left_behind.id
     union all
    select own.place, mine.job_id
      from own
      join mine on mine.place = own.place
     where own.state = 'doubtful'
     union all
    select own.place, null
      from own
      join mine on mine.place = own.place
     where (own.state = 'answered' or own.billed)
       and (own.fits or mine.reuse)
),
opened as (
    insert into retoma.calls (id, tenant, key, provider, model, job_id, batch_id, step, fence, worker_id, kind, request,
                              reserved, awaited_until, own_until, pipeline)
    overriding system value
    select paid.id, %(tenant)s::text, paid.key, paid.provider, paid.model, paid.job_id, paid.batch_id, paid.step,
           paid.fence, %(worker_id)s::bigint,
           case when paid.kind = 'first' and paid.place in (select again.place from again) then 'again'
                else paid.kind end,
           paid.request::json, paid.reserved,
           case when paid.reuse then clock_timestamp() + make_interval(secs => paid.patience) end,
           case when not paid.reuse then clock_timestamp() + make_interval(secs => paid.patience) end,
           paid.pipeline
      from paid
     where paid.pays
       and (select count(*) from again) >= 0  -- doubtful calls must leave the unique index first
     order by paid.key
    on conflict (tenant, key) where state = 'open' and awaited_until is not null do nothing
    returning id
),
settled as (
    update retoma.batches as batch
       set reserved = batch.reserved + spent.reserved
      from (select paid.batch_id, sum(paid.reserved) as reserved
              from paid
             where paid.id in (select opened.id from opened)
             group by paid.batch_id) as spent
     where batch.id = spent.batch_id
),
reused as (
    update retoma.calls as call
       set reused = call.reused + 1
      from paid
     where call.id = paid.known
       and (select count(*) from touched) >= 0
)
select paid.place,
       paid.known,
       coalesce(case when paid.id in (select opened.id from opened) then paid.id end,
                (select taken_over.id from taken_over where taken_over.id = found.id)) as opened,
       (select count(*) from again where again.place = paid.place and again.job_id = paid.job_id) as doubts,
       paid.budget,
       coalesce(awaited.id, found.id, case when paid.pays and paid.id not in (select opened.id from opened) then 0 end)
           as asked,
       coalesce(awaited.worker_id = %(worker_id)s::bigint, false) as here,
       coalesce(awaited.ours, false) as ours,
       (select taken_over.request_id from taken_over where taken_over.id = found.id) as operation
  from paid
  left join awaited on awaited.place = paid.place
  left join found on found.place = paid.place
 order by paid.place;

-- name: withdraw
-- Deletes an intent whose request was not sent, even if it was marked doubtful: the caller knows. A submitted operation
-- was sent, and stays.
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
-- The provider accepted the request and named the operation under which its result can be polled: from here on nobody
-- needs to submit it again. Not guarded by the fence, because the request is paid for.
update retoma.calls as call
   set request_id = %(request_id)s::text
 where call.id = %(id)s::bigint
   and call.state in ('open', 'doubtful')
returning call.id;

-- name: rest
-- Nobody polls the operation at the moment: the next equal request continues it at once and need not wait for us.
update retoma.calls as call
   set awaited_until = case when call.awaited_until is not null then clock_timestamp() end,
       own_until = case when call.own_until is not null then clock_timestamp() end,
       status = coalesce(%(status)s::smallint, call.status),
       error = coalesce(%(error)s::text, call.error),
       text = coalesce(%(text)s::text, call.text)
 where call.id = %(id)s::bigint
   and call.worker_id = %(worker_id)s::bigint
   and call.state = 'open'
   and call.request_id is not null
returning call.id;

-- name: answer
-- Records raw answers. Not guarded by the fence: the request is paid for, and the answer may serve another job. *said*
-- is sorted by id, which is the lock order. An answer closes the provider's breaker, and the caller that closed it is
-- told. An unknown cost is null, and such calls are counted: a sum without them would be wrong.
with said as materialized (
    select said.*
      from unnest(%(id)s::bigint[], %(answer)s::text[], %(text)s::text[], %(finish)s::text[], %(request_id)s::text[],
                  %(cost)s::numeric[], %(input_tokens)s::integer[], %(output_tokens)s::integer[],
                  %(cached_tokens)s::integer[], %(units)s::integer[], %(tier)s::text[], %(cost_basis)s::text[],
                  %(cache_write_tokens)s::integer[], %(cache_write_1h_tokens)s::integer[],
                  %(reasoning_tokens)s::integer[], %(audio_input_tokens)s::integer[],
                  %(audio_output_tokens)s::integer[])
           as said (id, answer, text, finish, request_id, cost, input_tokens, output_tokens, cached_tokens, units, tier,
                    cost_basis, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens, audio_input_tokens,
                    audio_output_tokens)
),
purse as materialized (
    select batch.id
      from retoma.batches as batch
     where batch.id in (select call.batch_id from said join retoma.calls as call on call.id = said.id)
     order by batch.id
       for no key update
),
answered as (
    update retoma.calls as call
       set state = 'answered',
           answer = said.answer,
           text = said.text,
           finish = said.finish,
           request_id = coalesce(said.request_id, call.request_id),
           status = null,
           error = null,
           cost = said.cost,
           input_tokens = said.input_tokens,
           output_tokens = said.output_tokens,
           cached_tokens = said.cached_tokens,
           units = said.units,
           tier = said.tier,
           cost_basis = said.cost_basis,
           cache_write_tokens = said.cache_write_tokens,
           cache_write_1h_tokens = said.cache_write_1h_tokens,
           reasoning_tokens = said.reasoning_tokens,
           audio_input_tokens = said.audio_input_tokens,
           audio_output_tokens = said.audio_output_tokens,
           answered_at = clock_timestamp()
      from said
     where call.id = said.id
       and call.state in ('open', 'doubtful')
       and (select count(*) from purse) >= 0
    returning call.id, call.batch_id, call.reserved, call.cost
),
settled as (
    update retoma.batches as batch
       set reserved = batch.reserved - spent.reserved,
           spent = batch.spent + spent.cost,
           unpriced = batch.unpriced + spent.unpriced
      from (select answered.batch_id, sum(answered.reserved) as reserved, coalesce(sum(answered.cost), 0) as cost,
                   count(*) filter (where answered.cost is null)::integer as unpriced
              from answered
             group by answered.batch_id) as spent
     where batch.id = spent.batch_id
),
troubled as materialized (
    select bucket.name, bucket.opened_until is not null as opened
      from retoma.limits as bucket
     where bucket.name = any (%(limits)s::text[])
       and (bucket.failures > 0 or bucket.opened_until is not null)
       and (select count(*) from answered) >= 0
     order by bucket.name
       for no key update
),
mended as (
    update retoma.limits as bucket
       set failures = 0,
           opened_until = null,
           probing_until = null,
           reason = null
      from troubled
     where bucket.name = troubled.name
)
select answered.id, null::text as closed from answered
 union all
select null, troubled.name from troubled where troubled.opened;

-- name: unfit
-- These answers do not fit what was asked for, and were not repaired: no other job reuses them.
update retoma.calls as call
   set unfit_at = coalesce(call.unfit_at, now())
 where call.id = any (%(ids)s::bigint[])
   and call.state = 'answered'
returning call.id;

-- name: fail
-- No answer. When certainly nothing was billed, the reservation is released. When it was certainly billed, the
-- reservation is spent, and without a reservation the cost is unknown. Otherwise the money is in doubt.
-- include: purse
failed as (
    update retoma.calls as call
       set state = case when %(paid)s::boolean is null then 'doubtful' else 'failed' end,
           cost = case when %(paid)s::boolean and call.reserved > 0 then call.reserved end,
           cost_basis = case when %(paid)s::boolean and call.reserved > 0 then 'reserved'
                             when %(paid)s::boolean then 'unreported' end,
           status = %(status)s::smallint,
           error = %(error)s::text,
           text = %(text)s::text
     where call.id = %(id)s::bigint
       and call.state in ('open', 'doubtful')
       and (select count(*) from purse) >= 0
    returning call.id, call.batch_id, call.reserved, call.cost, call.cost_basis, call.state
),
settled as (
    update retoma.batches as batch
       set reserved = batch.reserved - failed.reserved,
           spent = batch.spent + coalesce(failed.cost, 0),
           unpriced = batch.unpriced + (failed.cost_basis is not null and failed.cost is null)::integer
      from failed
     where batch.id = failed.batch_id
       and failed.state = 'failed'
)
select failed.id from failed;

-- name: one
select call.id, call.tenant, call.key, call.provider, call.model, call.job_id, call.batch_id, call.step, call.kind,
       call.state, call.request::text as request, call.answer, call.text, call.finish, call.request_id, call.status,
       call.error, call.reserved, call.cost, call.cost_basis, call.input_tokens, call.output_tokens,
       call.cached_tokens, call.cache_write_tokens, call.cache_write_1h_tokens, call.reasoning_tokens,
       call.audio_input_tokens, call.audio_output_tokens, call.units, call.tier, call.pipeline, call.reused,
       call.asked_at, call.answered_at
  from retoma.calls as call
 where call.id = %(id)s::bigint;

-- name: page
-- Newest first; a list reads no bodies.
select call.id, call.tenant, call.key, call.provider, call.model, call.job_id, call.batch_id, call.step, call.kind,
       call.state, '' as request, null::text as answer, null::text as text, call.finish, call.request_id, call.status,
       left(split_part(call.error, E'\n', 1), 300) as error, call.reserved, call.cost, call.cost_basis,
       call.input_tokens, call.output_tokens, call.cached_tokens, call.cache_write_tokens, call.cache_write_1h_tokens,
       call.reasoning_tokens, call.audio_input_tokens, call.audio_output_tokens, call.units, call.tier, call.pipeline,
       call.reused, call.asked_at, call.answered_at
  from retoma.calls as call
 where (%(job_id)s::bigint is null or call.job_id = %(job_id)s::bigint)
   and (%(batch_id)s::bigint is null or call.batch_id = %(batch_id)s::bigint)
   and (%(state)s::text is null or call.state = %(state)s::text)
   and (%(provider)s::text is null or call.provider = %(provider)s::text)
   and (%(model)s::text is null or call.model = %(model)s::text)
   and (%(before)s::bigint is null or call.id < %(before)s::bigint)
 order by call.id desc
 limit %(limit)s::integer;

-- name: abandon
-- Requests whose executor is gone, and whose answer nobody awaits any more, become doubtful. A submitted operation can
-- still be polled, but no provider keeps a result for two days.
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
       and coalesce(call.awaited_until, call.own_until, call.asked_at + interval '10 minutes') < now()
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
-- What was paid, by outcome: useful, paid again (repairs, and requests whose first answer was lost), lost (billed
-- without an answer), and in doubt; and how many calls have an unknown cost. Pruned calls count with what is still
-- known of them: their step, batch and job are gone. Most expensive first; days, newest first.
with told as (
    select case %(by)s::text
               when 'provider' then call.provider
               when 'model' then call.provider || '/' || call.model
               when 'day' then to_char(call.asked_at at time zone 'UTC', 'YYYY-MM-DD')
               when 'pipeline' then coalesce(call.pipeline, '')
               when 'step' then coalesce(call.step, '')
               when 'batch' then coalesce(call.batch_id::text, '')
               when 'job' then coalesce(call.job_id::text, '')
           end as name,
-- include: outcome
           1 as calls, call.reused, (call.cost is null and call.cost_basis is not null)::integer as unpriced,
           call.cost, case when call.state in ('open', 'doubtful') then call.reserved else 0 end as reserved,
           call.input_tokens, call.output_tokens, call.cached_tokens, call.cache_write_tokens, call.reasoning_tokens,
           call.units
      from retoma.calls as call
     where (%(batch_id)s::bigint is null or call.batch_id = %(batch_id)s::bigint)
       and (%(since)s::timestamptz is null or call.asked_at >= %(since)s::timestamptz)
       and (%(until)s::timestamptz is null or call.asked_at < %(until)s::timestamptz)
     union all
    select case %(by)s::text
               when 'provider' then gone.provider
               when 'model' then gone.provider || '/' || gone.model
               when 'day' then gone.day::text
               when 'pipeline' then gone.pipeline
               else ''
           end,
           gone.outcome, gone.calls, gone.reused, gone.unpriced, gone.cost, gone.reserved, gone.input_tokens,
           gone.output_tokens, gone.cached_tokens, gone.cache_write_tokens, gone.reasoning_tokens, gone.units
      from retoma.spending as gone
     where %(batch_id)s::bigint is null
       and (%(since)s::timestamptz is null or gone.day >= (%(since)s::timestamptz at time zone 'UTC')::date)
       and (%(until)s::timestamptz is null or gone.day < (%(until)s::timestamptz at time zone 'UTC')::date)
)
select told.name,
       sum(told.calls)::bigint as calls,
       coalesce(sum(told.calls) filter (where told.outcome in ('useful', 'again')), 0)::bigint as answered,
       sum(told.reused)::bigint as reused,
       coalesce(sum(told.cost) filter (where told.outcome = 'useful'), 0) as useful,
       coalesce(sum(told.cost) filter (where told.outcome = 'again'), 0) as again,
       coalesce(sum(told.cost) filter (where told.outcome in ('lost', 'doubtful')), 0) as lost,
       coalesce(sum(told.reserved), 0) as doubtful,
       sum(told.unpriced)::bigint as unpriced,
       sum(told.input_tokens)::bigint as input_tokens,
       sum(told.output_tokens)::bigint as output_tokens,
       sum(told.cached_tokens)::bigint as cached_tokens,
       sum(told.cache_write_tokens)::bigint as cache_write_tokens,
       sum(told.reasoning_tokens)::bigint as reasoning_tokens,
       sum(told.units)::bigint as units
  from told
 group by told.name
having %(after)s::text is null
    or (case %(by)s::text when 'day' then 0 else coalesce(sum(told.cost), 0) end, told.name)
       < (%(paid)s::numeric, %(after)s::text)
 order by case %(by)s::text when 'day' then 0 else coalesce(sum(told.cost), 0) end desc, told.name desc
 limit %(limit)s::integer;

-- name: spend_by_label
-- The same by the labels of the batches that paid, each as "name=value". A call counts under every label of its batch,
-- so the sums overlap; calls outside batches, and those that were pruned, are under no label.
with told as (
    select label.key || '=' || label.value as name,
-- include: outcome
           call.reused, (call.cost is null and call.cost_basis is not null)::integer as unpriced,
           call.cost, case when call.state in ('open', 'doubtful') then call.reserved else 0 end as reserved,
           call.input_tokens, call.output_tokens, call.cached_tokens, call.cache_write_tokens, call.reasoning_tokens,
           call.units
      from retoma.calls as call
      join retoma.batches as batch on batch.id = call.batch_id
     cross join lateral jsonb_each_text(batch.labels) as label
     where (%(batch_id)s::bigint is null or call.batch_id = %(batch_id)s::bigint)
       and (%(since)s::timestamptz is null or call.asked_at >= %(since)s::timestamptz)
       and (%(until)s::timestamptz is null or call.asked_at < %(until)s::timestamptz)
)
select told.name,
       count(*) as calls,
       count(*) filter (where told.outcome in ('useful', 'again')) as answered,
       sum(told.reused)::bigint as reused,
       coalesce(sum(told.cost) filter (where told.outcome = 'useful'), 0) as useful,
       coalesce(sum(told.cost) filter (where told.outcome = 'again'), 0) as again,
       coalesce(sum(told.cost) filter (where told.outcome in ('lost', 'doubtful')), 0) as lost,
       coalesce(sum(told.reserved), 0) as doubtful,
       sum(told.unpriced)::bigint as unpriced,
       sum(told.input_tokens)::bigint as input_tokens,
       sum(told.output_tokens)::bigint as output_tokens,
       sum(told.cached_tokens)::bigint as cached_tokens,
       sum(told.cache_write_tokens)::bigint as cache_write_tokens,
       sum(told.reasoning_tokens)::bigint as reasoning_tokens,
       sum(told.units)::bigint as units
  from told
 group by told.name
having %(after)s::text is null
    or (coalesce(sum(told.cost), 0), told.name) < (%(paid)s::numeric, %(after)s::text)
 order by coalesce(sum(told.cost), 0) desc, told.name desc
 limit %(limit)s::integer;

-- name: budgets
-- The batches with a budget among the newest thousand: those under way first.
select recent.id, recent.name, recent.state, recent.budget, recent.spent, recent.reserved, recent.unpriced
  from (select batch.* from retoma.batches as batch order by batch.id desc limit 1000) as recent
 where recent.budget is not null
 order by recent.finished_at is not null, recent.id desc
 limit %(limit)s::integer;

-- name: price
-- The prices that apply today, one for each service tier.
select distinct on (price.tier)
       price.provider, price.model, price.tier, price.since, price.input, price.cached, price.cache_write,
       price.cache_write_1h, price.output, price.reasoning, price.audio_input, price.audio_output, price.unit,
       price.source
  from (
-- include: every_price
       ) as price
 where price.provider = %(provider)s::text
   and price.model = %(model)s::text
   and price.since <= current_date
 order by price.tier, price.since desc;

-- name: price_story
-- Every past, present and future price of a model.
select price.provider, price.model, price.tier, price.since, price.input, price.cached, price.cache_write,
       price.cache_write_1h, price.output, price.reasoning, price.audio_input, price.audio_output, price.unit,
       price.source
  from (
-- include: every_price
       ) as price
 where price.provider = %(provider)s::text
   and price.model = %(model)s::text
 order by price.tier, price.since;

-- name: prices
select distinct on (price.provider, price.model, price.tier)
       price.provider, price.model, price.tier, price.since, price.input, price.cached, price.cache_write,
       price.cache_write_1h, price.output, price.reasoning, price.audio_input, price.audio_output, price.unit,
       price.source
  from (
-- include: every_price
       ) as price
 where price.since <= current_date
 order by price.provider, price.model, price.tier, price.since desc;

-- name: set_price
insert into retoma.prices as price (provider, model, since, input, cached, cache_write, cache_write_1h, output,
                                    reasoning, audio_input, audio_output, unit, source)
values (%(provider)s::text, %(model)s::text, coalesce(%(since)s::date, current_date), %(input)s::numeric,
        %(cached)s::numeric, %(cache_write)s::numeric, %(cache_write_1h)s::numeric, %(output)s::numeric,
        %(reasoning)s::numeric, %(audio_input)s::numeric, %(audio_output)s::numeric, %(unit)s::numeric,
        %(source)s::text)
on conflict (provider, model, since) do update
   set input = excluded.input,
       cached = excluded.cached,
       cache_write = excluded.cache_write,
       cache_write_1h = excluded.cache_write_1h,
       output = excluded.output,
       reasoning = excluded.reasoning,
       audio_input = excluded.audio_input,
       audio_output = excluded.audio_output,
       unit = excluded.unit,
       source = excluded.source
 where %(replace)s::boolean
returning price.provider, price.model, '' as tier, price.since, price.input, price.cached, price.cache_write,
          price.cache_write_1h, price.output, price.reasoning, price.audio_input, price.audio_output, price.unit,
          price.source;

-- name: set_tier_price
insert into retoma.tier_prices as price (provider, model, tier, since, input, cached, cache_write, cache_write_1h,
                                         output, reasoning, audio_input, audio_output, unit, source)
values (%(provider)s::text, %(model)s::text, %(tier)s::text, coalesce(%(since)s::date, current_date),
        %(input)s::numeric, %(cached)s::numeric, %(cache_write)s::numeric, %(cache_write_1h)s::numeric,
        %(output)s::numeric, %(reasoning)s::numeric, %(audio_input)s::numeric, %(audio_output)s::numeric,
        %(unit)s::numeric, %(source)s::text)
on conflict (provider, model, tier, since) do update
   set input = excluded.input,
       cached = excluded.cached,
       cache_write = excluded.cache_write,
       cache_write_1h = excluded.cache_write_1h,
       output = excluded.output,
       reasoning = excluded.reasoning,
       audio_input = excluded.audio_input,
       audio_output = excluded.audio_output,
       unit = excluded.unit,
       source = excluded.source
returning price.provider, price.model, price.tier, price.since, price.input, price.cached, price.cache_write,
          price.cache_write_1h, price.output, price.reasoning, price.audio_input, price.audio_output, price.unit,
          price.source;

-- name: unpriced
-- Calls without a price, by id, after a cursor.
select call.id, call.provider, call.model, call.asked_at, call.input_tokens, call.output_tokens, call.cached_tokens,
       call.cache_write_tokens, call.cache_write_1h_tokens, call.reasoning_tokens, call.audio_input_tokens,
       call.audio_output_tokens, call.units, call.tier
  from retoma.calls as call
 where call.cost_basis = 'unpriced'
   and call.id > %(after)s::bigint
 order by call.id
 limit %(limit)s::integer;

-- name: reprice
-- Writes the cost of calls that had no price, now that there is one. The first writer wins: a second
-- one changes nothing.
with given as materialized (
    select given.id, given.cost, given.basis
      from unnest(%(ids)s::bigint[], %(costs)s::numeric[], %(bases)s::text[]) as given (id, cost, basis)
),
purse as materialized (
    select batch.id
      from retoma.batches as batch
     where batch.id in (select call.batch_id
                          from given
                          join retoma.calls as call on call.id = given.id)
     order by batch.id
       for no key update of batch
),
priced as (
    update retoma.calls as call
       set cost = given.cost,
           cost_basis = given.basis
      from given
     where call.id = given.id
       and call.cost_basis = 'unpriced'
       and (select count(*) from purse) >= 0
    returning call.id, call.batch_id, call.cost
),
settled as (
    update retoma.batches as batch
       set spent = batch.spent + paid.cost,
           unpriced = batch.unpriced - paid.calls
      from (select priced.batch_id, sum(priced.cost) as cost, count(*)::integer as calls
              from priced
             group by priced.batch_id) as paid
     where batch.id = paid.batch_id
)
select priced.id, priced.cost from priced;

-- name: prune
-- Calls that were asked long ago, of batches and jobs that are gone. Until then their answers are reused. A bounded
-- number is visited, oldest first, after a cursor, so that calls that must stay do not hide others. What was paid is
-- added to the totals in the same statement, so that it is counted exactly once.
with old as materialized (
    select call.id, call.asked_at, call.job_id, call.batch_id
      from retoma.calls as call
     where call.asked_at < now() - make_interval(secs => %(older_than)s::float8)
       and (call.asked_at, call.id) > (%(asked_at)s::timestamptz, %(id)s::bigint)
     order by call.asked_at, call.id
     limit %(limit)s::integer
),
free as materialized (
    select call.id
      from old
      join retoma.calls as call on call.id = old.id
     where not exists (select from retoma.jobs as job where job.id = old.job_id)
       and not exists (select from retoma.batches as batch where batch.id = old.batch_id)
       for update of call skip locked
),
gone as (
    delete from retoma.calls as call using free where call.id = free.id
    returning call.*
),
remembered as (
    -- In key order, so that two concurrent prunes do not deadlock.
    insert into retoma.spending as sum (day, tenant, provider, model, pipeline, outcome, calls, reused, unpriced, cost,
                                        reserved, input_tokens, output_tokens, cached_tokens, cache_write_tokens,
                                        reasoning_tokens, units)
    select day, tenant, provider, model, pipeline, outcome, count(*), sum(reused), sum(unpriced), sum(cost),
           sum(reserved), sum(input_tokens), sum(output_tokens), sum(cached_tokens), sum(cache_write_tokens),
           sum(reasoning_tokens), sum(units)
      from (select (call.asked_at at time zone 'UTC')::date as day, call.tenant, call.provider, call.model,
                   coalesce(call.pipeline, '') as pipeline,
-- include: outcome
                   call.reused, (call.cost is null and call.cost_basis is not null)::integer as unpriced,
                   coalesce(call.cost, 0) as cost,
                   case when call.state in ('open', 'doubtful') then call.reserved else 0 end as reserved,
                   call.input_tokens, call.output_tokens, call.cached_tokens, call.cache_write_tokens,
                   call.reasoning_tokens, call.units
              from gone as call) as paid
     group by day, tenant, provider, model, pipeline, outcome
     order by day, tenant, provider, model, pipeline, outcome
    on conflict (day, tenant, provider, model, pipeline, outcome) do update
       set calls = sum.calls + excluded.calls,
           reused = sum.reused + excluded.reused,
           unpriced = sum.unpriced + excluded.unpriced,
           cost = sum.cost + excluded.cost,
           reserved = sum.reserved + excluded.reserved,
           input_tokens = sum.input_tokens + excluded.input_tokens,
           output_tokens = sum.output_tokens + excluded.output_tokens,
           cached_tokens = sum.cached_tokens + excluded.cached_tokens,
           cache_write_tokens = sum.cache_write_tokens + excluded.cache_write_tokens,
           reasoning_tokens = sum.reasoning_tokens + excluded.reasoning_tokens,
           units = sum.units + excluded.units
)
select old.asked_at, old.id, (select count(*) from gone) as gone
  from old
 order by old.asked_at desc, old.id desc
 limit 1;
