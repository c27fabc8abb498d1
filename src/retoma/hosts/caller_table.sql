-- Statements over a table of a caller's. What stands in {braces} is put in when the table is known: the names and types
-- of its columns, its clock (now, of the heartbeat's type) and the changes that are made.

-- name: types
select
    attname::text as name,
    format_type(atttypid, -1) as type
from pg_catalog.pg_attribute
where attrelid = to_regclass(%(table)s::text) and attnum > 0 and not attisdropped

-- name: look
select
    {status}::text,
    {worker}::text,
    coalesce({attempts}, 0)::int,
    {checkpoint}::text,
    {data}::text,
    coalesce({heartbeat} < {now} - make_interval(secs => %(timeout)s), true)
from {table}
where {key} = %(key)s::{key_type}

-- name: take
update {table} set {changes}
where {key} = %(key)s::{key_type}
    and ({status}::text = %(processing)s::text or {status}::text = any (%(waiting)s::text[]))
    and (
        {worker} is null
        or {worker}::text = %(me)s::text
        or (
            coalesce({heartbeat} < {now} - make_interval(secs => %(timeout)s), true)
            and coalesce({attempts}, 0) < %(most)s::int
        )
    )
returning {checkpoint}::text

-- name: write
update {table} set {changes}
where {key} = %(key)s::{key_type}
    and {worker}::text = %(me)s::text
    and {status}::text = %(processing)s::text
returning {status}::text

-- name: notice
update {table} set {heartbeat} = {now}
where {heartbeat} is null
    and ({status} = %(processing)s::{status_type} or {status}::text = any (%(waiting)s::text[]))
returning 1

-- name: give_back
with silent as (
    select {key} as retoma_key
    from {table}
    where ({status} = %(processing)s::{status_type} and {heartbeat} < {now} - make_interval(secs => %(timeout)s))
        or ({status}::text = any (%(waiting)s::text[]) and {heartbeat} < {now} - make_interval(secs => %(lost)s))
    order by {heartbeat}
    limit %(limit)s::int
    for update skip locked
)

update {table} set {changes}
from silent
where {key} = silent.retoma_key
returning silent.retoma_key, {status}::text
