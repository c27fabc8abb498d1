-- Stored files that no row owns: not yet, or not any more.

-- name: announce
-- Before the blobs are put: whatever happens from here on, the sweep knows of them.
insert into retoma.loose_blobs (blob)
select unnest(%(blobs)s::text[])
returning blob;

-- name: own
-- In the transaction that inserts the owner. No row comes back when the sweep has given the blob up: the row lock lets
-- one of the two go first, and the other sees what it did.
delete from retoma.loose_blobs
 where blob = %(blob)s::text
   and dropped_at is null
returning blob;

-- name: disown
-- In the transaction that removes the owner, or on its own for a blob that never had one.
insert into retoma.loose_blobs (blob, dropped_at)
values (%(blob)s::text, now())
    on conflict (blob) do update set dropped_at = coalesce(loose_blobs.dropped_at, excluded.dropped_at)
returning blob;

-- name: give_up
-- What nobody has owned for so long, and what was given up and is still there because somebody was killed. From here on
-- the blob can have no owner, so it may be deleted. The oldest first, after a cursor: those that the store refuses to
-- delete hide nobody.
with old as materialized (
    select blob, since
      from retoma.loose_blobs
     where since < now() - make_interval(secs => %(older_than)s::double precision)
       and (since, blob) > (%(since)s::timestamptz, %(after)s::text)
     order by since, blob
     limit %(limit)s::integer
       for update skip locked
),
given_up as (
    update retoma.loose_blobs as loose
       set dropped_at = coalesce(loose.dropped_at, now())
      from old
     where loose.blob = old.blob
)
select old.since, old.blob
  from old
 order by old.since, old.blob;

-- name: forget
-- After the blobs were deleted.
delete from retoma.loose_blobs
 where blob = any (%(blobs)s::text[])
   and dropped_at is not null
returning blob;
