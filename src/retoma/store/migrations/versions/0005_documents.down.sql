-- Documents: files, what was read from them, and the pieces that are searched.
select 1;
