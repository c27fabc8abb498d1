-- name: put
insert into stamps.letters (job_id, text)
values (%(job_id)s::bigint, %(text)s::text)
returning number;

-- name: all_of_them
select letter.number, letter.text from stamps.letters as letter order by letter.number;
