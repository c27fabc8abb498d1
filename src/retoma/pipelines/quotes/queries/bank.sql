-- The price bank: vehicles that were looked up before.

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
-- By its code, or by the words of brand and model; the year must be the same, and the price not too old.
select vehicle.id, vehicle.codigo_fipe, vehicle.ano, vehicle.marca, vehicle.modelo, vehicle.combustivel,
       vehicle.vehicle_type, vehicle.price, vehicle.reference_month, vehicle.evidence_blob, vehicle.evidence_sha256,
       vehicle.updated_at
  from quotes.price_bank as vehicle
 where vehicle.ano = %(ano)s::integer
   and case when %(codigo_fipe)s::text is not null then vehicle.codigo_fipe = %(codigo_fipe)s::text
            else cardinality(%(words)s::text[]) > 0 and vehicle.words @> %(words)s::text[]
                 and (%(combustivel)s::text is null or vehicle.combustivel is null
                      or lower(vehicle.combustivel) = lower(%(combustivel)s::text)) end
   and vehicle.updated_at > now() - make_interval(months => %(months)s::integer)
 order by cardinality(vehicle.words), vehicle.updated_at desc, vehicle.id
 limit 1;

-- name: page
select vehicle.id, vehicle.codigo_fipe, vehicle.ano, vehicle.marca, vehicle.modelo, vehicle.combustivel,
       vehicle.vehicle_type, vehicle.price, vehicle.reference_month, vehicle.evidence_blob, vehicle.evidence_sha256,
       vehicle.updated_at
  from quotes.price_bank as vehicle
 where (%(before)s::bigint is null or vehicle.id < %(before)s::bigint)
 order by vehicle.id desc
 limit %(limit)s::integer;
