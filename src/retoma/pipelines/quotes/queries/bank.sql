-- The price bank: vehicles that were looked up before, and how their prices were brought up to date.

-- name: put
insert into quotes.price_bank (codigo_fipe, ano, marca, modelo, combustivel, vehicle_type, words, price,
                               reference_month, evidence_blob, evidence_sha256, quote_id)
values (%(codigo_fipe)s::text, %(ano)s::integer, %(marca)s::text, %(modelo)s::text, %(combustivel)s::text,
        %(vehicle_type)s::text, %(words)s::text[], %(price)s::numeric, %(reference_month)s::text,
        %(evidence_blob)s::text, %(evidence_sha256)s::text, %(quote_id)s::bigint)
on conflict (codigo_fipe, ano) do update
   set marca = excluded.marca, modelo = excluded.modelo, combustivel = excluded.combustivel,
       vehicle_type = excluded.vehicle_type, words = excluded.words, price = excluded.price,
       reference_month = excluded.reference_month, evidence_blob = excluded.evidence_blob,
       evidence_sha256 = excluded.evidence_sha256, quote_id = excluded.quote_id, updated_at = now()
returning id;

-- name: find
-- By its code, or by the words of brand and model; the year must be the same. Whether the price is too old to be used as
-- it is, the row says; and by which calculation the index made it, where it did.
select vehicle.id, vehicle.codigo_fipe, vehicle.ano, vehicle.marca, vehicle.modelo, vehicle.combustivel,
       vehicle.vehicle_type, vehicle.price, vehicle.reference_month, vehicle.evidence_blob, vehicle.evidence_sha256,
       vehicle.updated_at, vehicle.update_mode,
       vehicle.updated_at > now() - make_interval(months => %(months)s::integer) as fresh,
       (select case when change.mode = 'IPCA' and change.price_after = vehicle.price then change.detail end
          from quotes.bank_updates as change
         where change.vehicle_id = vehicle.id and change.state = 'APPLIED'
         order by change.id desc
         limit 1) as calculation
  from quotes.price_bank as vehicle
 where vehicle.ano = %(ano)s::integer
   and case when %(codigo_fipe)s::text is not null then vehicle.codigo_fipe = %(codigo_fipe)s::text
            else cardinality(%(words)s::text[]) > 0 and vehicle.words @> %(words)s::text[]
                 and (%(combustivel)s::text is null or vehicle.combustivel is null
                      or lower(vehicle.combustivel) = lower(%(combustivel)s::text)) end
 order by fresh desc, cardinality(vehicle.words), vehicle.updated_at desc, vehicle.id
 limit 1;

-- name: page
select vehicle.id, vehicle.codigo_fipe, vehicle.ano, vehicle.marca, vehicle.modelo, vehicle.combustivel,
       vehicle.vehicle_type, vehicle.price, vehicle.reference_month, vehicle.evidence_blob, vehicle.evidence_sha256,
       vehicle.updated_at, vehicle.update_mode,
       vehicle.updated_at > now() - make_interval(months => %(months)s::integer) as fresh
  from quotes.price_bank as vehicle
 where (%(id)s::bigint is null or vehicle.id = %(id)s::bigint)
   and (%(before)s::bigint is null or vehicle.id < %(before)s::bigint)
 order by vehicle.id desc
 limit %(limit)s::integer;

-- name: hold
-- Whoever changes a price does so one after the other.
select vehicle.price
  from quotes.price_bank as vehicle
 where vehicle.id = %(id)s::bigint
   for no key update;

-- name: reprice
update quotes.price_bank as vehicle
   set price = %(price)s::numeric,
       reference_month = coalesce(%(reference_month)s::text, vehicle.reference_month),
       evidence_blob = coalesce(%(evidence_blob)s::text, vehicle.evidence_blob),
       evidence_sha256 = coalesce(%(evidence_sha256)s::text, vehicle.evidence_sha256),
       quote_id = coalesce(%(quote_id)s::bigint, vehicle.quote_id),
       updated_at = now()
 where vehicle.id = %(id)s::bigint
returning vehicle.id;

-- name: set_mode
update quotes.price_bank as vehicle
   set update_mode = %(mode)s::text
 where vehicle.id = %(id)s::bigint
returning vehicle.id;

-- name: put_update
-- A job that is done a second time writes no second row.
insert into quotes.bank_updates (vehicle_id, mode, state, price_before, price_after, reference_month, evidence_blob,
                                 evidence_sha256, detail, quote_id, job_id, by, reason)
values (%(vehicle_id)s::bigint, %(mode)s::text, %(state)s::text, %(price_before)s::numeric, %(price_after)s::numeric,
        %(reference_month)s::text, %(evidence_blob)s::text, %(evidence_sha256)s::text, %(detail)s::json,
        %(quote_id)s::bigint, %(job_id)s::bigint, %(by)s::text, %(reason)s::text)
on conflict do nothing
returning id;

-- name: updates
select change.id, change.vehicle_id, change.mode, change.state, change.price_before, change.price_after,
       change.reference_month, change.evidence_blob, change.evidence_sha256, change.detail, change.quote_id,
       change.job_id, change.by, change.reason, change.created_at, change.decided_by, change.decided_at
  from quotes.bank_updates as change
 where (%(id)s::bigint is null or change.id = %(id)s::bigint)
   and (%(vehicle_id)s::bigint is null or change.vehicle_id = %(vehicle_id)s::bigint)
   and (%(quote_id)s::bigint is null or change.quote_id = %(quote_id)s::bigint)
   and (%(state)s::text is null or change.state = %(state)s::text)
 order by change.id desc
 limit %(limit)s::integer;

-- name: decide_update
-- Once: of two who decide, the second gets no row.
update quotes.bank_updates as change
   set state = %(state)s::text,
       price_after = coalesce(%(price)s::numeric, change.price_after),
       reason = %(reason)s::text,
       decided_by = %(by)s::text,
       decided_at = now()
 where change.id = %(id)s::bigint and change.state = 'WAITING'
returning change.id;
