-- A question, word by word.

-- name: sought
-- Each word that says something as what PostgreSQL looks for: the stem of any of its forms, and of each form without its
-- accents, for many people leave those out, and so do many texts. Words that say nothing by themselves have none.
select distinct string_agg(distinct '(' || stem.sought::text || ')', ' | ')::tsquery::text as sought
  from unnest(%(words)s::text[]) with ordinality as said (forms, number)
 cross join lateral string_to_table(said.forms, ' ') as form
 cross join lateral (
       values (plainto_tsquery('portuguese', form)),
              (plainto_tsquery('portuguese',
                               translate(form, 'áàâãäéèêëíìîïóòôõöúùûüçñÁÀÂÃÄÉÈÊËÍÌÎÏÓÒÔÕÖÚÙÛÜÇÑ',
                                               'aaaaaeeeeiiiiooooouuuucnAAAAAEEEEIIIIOOOOOUUUUCN')))
       ) as stem (sought)
 where numnode(plainto_tsquery('portuguese', split_part(said.forms, ' ', 1))) > 0
   and numnode(stem.sought) > 0
 group by said.number
 order by sought;
