-- Webhooks.
--
-- webhook_endpoints    where messages go: an address, the kinds that it wants, and the secret that signs them
-- webhook_deliveries   one row for each message to each endpoint, with the body as it is signed
-- webhook_attempts     how each request of a delivery ended
--
-- A message about a batch is written by a trigger, in the transaction of the change that it tells of: it is there when
-- the change is, and once. The trigger runs only where a state changes or a quarter of the batch is passed.

create table retoma.webhook_endpoints (
    id               text primary key,
    url              text not null,
    description      text not null default '',
    kinds            text[] not null,
    secret           text not null,
    previous_secret  text,
    previous_until   timestamptz,
    created_at       timestamptz not null default now(),
    succeeded_at     timestamptz,
    failed_at        timestamptz,
    failures         integer not null default 0,
    disabled_at      timestamptz,
    disabled_reason  text
);

create table retoma.webhook_deliveries (
    id               text primary key,
    endpoint_id      text not null,
    kind             text not null,
    body             text not null,
    state            text not null default 'pending',
    attempts         integer not null default 0,
    tries            integer not null default 0,
    status           integer,
    error            text,
    created_at       timestamptz not null default now(),
    next_at          timestamptz not null default now(),
    ended_at         timestamptz,
    constraint a_delivery_is_pending_or_ended check (state in ('pending', 'delivered', 'failed')),
    constraint only_an_ended_delivery_has_ended check ((ended_at is null) = (state = 'pending'))
) with (fillfactor = 80);

create index webhook_deliveries_due on retoma.webhook_deliveries (endpoint_id, next_at) where state = 'pending';
create index webhook_deliveries_of_endpoint on retoma.webhook_deliveries (endpoint_id, created_at, id);
create index webhook_deliveries_by_age on retoma.webhook_deliveries (ended_at) where ended_at is not null;

create table retoma.webhook_attempts (
    delivery_id      text not null,
    attempt          integer not null,
    at               timestamptz not null default now(),
    status           integer,
    error            text,
    seconds          real not null,
    primary key (delivery_id, attempt)
);

-- Undoing this revision leaves the row.
insert into retoma.duties (name) values ('webhooks') on conflict do nothing;

-- Messages carry ids, names and numbers, and no input, output or text of an error.
create function retoma.webhook_message(kind text, data jsonb) returns void
language sql set search_path = pg_catalog as $$
    insert into retoma.webhook_deliveries (id, endpoint_id, kind, body)
    select 'msg_' || replace(gen_random_uuid()::text, '-', ''), endpoint.id, kind,
           jsonb_build_object('type', kind, 'data', data, 'timestamp',
                              to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text
      from retoma.webhook_endpoints as endpoint
     where endpoint.disabled_at is null
       and kind = any (endpoint.kinds)
$$;

create function retoma.webhook_of_batch() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
declare
    data jsonb;
    quarter integer;
begin
    if not exists (select from retoma.webhook_endpoints as endpoint where endpoint.disabled_at is null) then
        return null;
    end if;
    data := jsonb_build_object(
        'batch_id', new.id, 'name', left(new.name, 200), 'pipeline', new.pipeline, 'state', new.state, 'was', old.state,
        'reason', left(new.reason, 200), 'total', new.total, 'unfinished', new.unfinished, 'failures', new.failures,
        'resumes', new.resumes, 'spent', new.spent, 'budget', new.budget,
        'correlation_id', left(new.correlation_id, 200));
    if new.total > 0 and new.state not in ('completed', 'failed', 'cancelled') then
        for quarter in (coalesce(old.total - old.unfinished, 0)::bigint * 4 / new.total + 1) ..
                       least((new.total - new.unfinished)::bigint * 4 / new.total, 3) loop
            perform retoma.webhook_message('batch.progress_' || quarter * 25, data);
        end loop;
    end if;
    if new.state is not distinct from old.state then
        return null;
    end if;
    if new.state = 'running' then
        perform retoma.webhook_message(
            case when old.state = 'queued' then 'batch.started' else 'batch.resumed' end, data);
    elsif new.state in ('stalled', 'completed', 'failed', 'cancelled') then
        perform retoma.webhook_message('batch.' || new.state, data);
    elsif new.state = 'paused' then
        perform retoma.webhook_message(
            case when new.reason = 'budget' then 'budget.reached' else 'batch.paused' end, data);
    end if;
    return null;
end
$$;

create trigger webhook_of_batch after update on retoma.batches for each row
    when (old.state is distinct from new.state
          or new.total > 0 and old.unfinished is distinct from new.unfinished
             and (coalesce(old.total - old.unfinished, 0)::bigint * 4 / new.total)
                 < ((new.total - new.unfinished)::bigint * 4 / new.total))
    execute function retoma.webhook_of_batch();
