-- Chapters: what a book was cut into, with their texts, so that nobody has to read the file again.

-- name: put
insert into books.chapters (session_id, place, number, title, content, words, pages, page_starts, sha256)
values (%(session_id)s::text, %(place)s::integer, %(number)s::text, %(title)s::text, %(content)s::text,
        %(words)s::integer, %(pages)s::integer[], %(page_starts)s::text, %(sha256)s::text)
returning place;

-- name: clear
delete from books.chapters as chapter
 where chapter.session_id = %(session_id)s::text
returning chapter.place;

-- name: of
select chapter.place, chapter.number, chapter.title, chapter.content, chapter.words, chapter.pages, chapter.page_starts,
       chapter.sha256
  from books.chapters as chapter
 where chapter.session_id = %(session_id)s::text
 order by chapter.place;

-- name: standing
-- Every chapter and what is there of it, without the texts.
select chapter.place, chapter.number, chapter.title, chapter.words, chapter.pages, valid.passed, valid.origin,
       valid.total_chunks, valid.processed_chunks, valid.summary_words, valid.saved_at,
       coalesce(versions.attempts, 0) as attempts, versions.reason
  from books.chapters as chapter
  left join books.checkpoints as valid
         on valid.session_id = chapter.session_id
        and valid.chapter_number = chapter.number
        and valid.verdict = 'valid'
  left join lateral (
       select count(*) as attempts,
              (array_agg(version.reason order by version.version desc)
                  filter (where version.verdict = 'invalid'))[1] as reason
         from books.checkpoints as version
        where version.session_id = chapter.session_id
          and version.chapter_number = chapter.number) as versions on true
 where chapter.session_id = %(session_id)s::text
 order by chapter.place;
