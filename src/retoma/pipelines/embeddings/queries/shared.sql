-- Parts that several statements have in common, and must have in the same words.

-- name: shown
-- Texts of one site and one model that some source says now.
   and embedding.organisation = %(organisation)s::text
   and embedding.site = %(site)s::text
   and embedding.provider = %(provider)s::text
   and embedding.model = %(model)s::text
   and exists (select
                 from retoma.embedding_sources as source
                where source.organisation = embedding.organisation
                  and source.site = embedding.site
                  and source.content_hash = embedding.content_hash
                  and source.provider = embedding.provider
                  and source.model = embedding.model
                  and source.switched_off_at is null
                  and source.active)
