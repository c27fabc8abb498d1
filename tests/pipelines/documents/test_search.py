"""Search: by what is meant and by what is said, with pgvector and without it."""

from __future__ import annotations

import re
from dataclasses import replace

import psycopg
import pytest
from shelf import LEASE, RECIPE, Embedding, sent

from retoma import Retoma
from retoma.errors import ConfigurationError
from retoma.pipelines.documents import search_queries
from retoma.pipelines.documents.library import Documents
from retoma.pipelines.documents.search import by_index, one_by_one
from retoma.pipelines.questions import Weighed
from retoma.pipelines.vectors import look_further, pgvector
from retoma.store.query import Query
from retoma.testing import drain

TEXTS = {
    "contrato.txt": LEASE,
    "bolo.txt": RECIPE,
    "remedio.txt": "Tome um comprimido de oito em oito horas, longe das refeições, e beba bastante água.",
    "viagem.txt": "O avião parte de Lisboa às nove da manhã e chega ao Recife no começo da tarde.",
    "cachorro.txt": "O filhote deve ser levado ao veterinário para receber as vacinas no segundo mês de vida.",
    "multa.txt": "Art. 9º O atraso no pagamento sujeita o devedor a juros de mora e correção monetária.",
}


@pytest.fixture
async def shelf(library: Documents, app: Retoma) -> Documents:
    for name, text in TEXTS.items():
        await sent(library, text, name)
    await drain(app)
    return library


def words(text: str) -> set[str]:
    return set(re.findall(r"\w{3,}", text.lower()))


class TestSearch:
    @pytest.mark.parametrize(
        ("asked", "name"),
        [
            ("voo internacional até Pernambuco", "viagem.txt"),
            ("imunização de animais domésticos jovens", "cachorro.txt"),
            ("como preparar sobremesa caseira", "bolo.txt"),
            ("posologia do medicamento", "remedio.txt"),
        ],
    )
    async def test_a_paraphrase_without_a_shared_word_is_found(self, shelf: Documents, asked: str, name: str) -> None:
        assert not words(asked) & words(TEXTS[name])

        best = (await shelf.search(asked))[0]

        assert (best.filename, best.how) == (name, "meaning")

    async def test_words_are_found_with_and_without_accents_and_in_another_form(self, shelf: Documents) -> None:
        for asked in ("rescisão", "rescisao", "RESCISÃO"):
            found = await shelf.search(asked)
            assert (found[0].filename, found[0].how) == ("contrato.txt", "both"), asked
            assert found[0].title == "CLÁUSULA SEGUNDA – DA RESCISÃO"
        for asked, name in (("filhotes", "cachorro.txt"), ("comprimidos", "remedio.txt"), ("devedores", "multa.txt")):
            found = await shelf.search(asked)
            assert (found[0].filename, found[0].how) == (name, "both"), asked

    async def test_a_piece_says_where_it_stands(self, shelf: Documents) -> None:
        found = (await shelf.search("juros de mora e correção monetária", limit=1))[0]

        assert (found.filename, found.page_start, found.page_end) == ("multa.txt", 1, 1)
        assert (found.section_type, found.title) == ("artigo", "Art. 9º")
        assert "juros de mora" in found.snippet

    async def test_when_nobody_can_say_what_it_means_the_words_still_find(
        self, shelf: Documents, embedder: Embedding
    ) -> None:
        embedder.fails = 1

        found = await shelf.search("vacinas do filhote")

        assert [(each.filename, each.how) for each in found] == [("cachorro.txt", "words")]

    async def test_a_question_to_a_provider_that_is_paid_is_written_down_and_asked_once(
        self, shelf: Documents, embedder: Embedding, psql: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(embedder, "provider", "biller")
        embedder.asked = []

        for _ in range(2):
            await shelf.search("vacinas do filhote")

        assert embedder.asked == [["vacinas do filhote"]]
        assert psql.execute("select provider, step, job_id, state, reused from retoma.calls").fetchall() == [
            ("biller", "search", None, "answered", 1)
        ]

    async def test_every_word_counts_before_some_words(self, shelf: Documents, embedder: Embedding) -> None:
        embedder.fails = 1

        found = await shelf.search("pagamento contrato imóvel")

        assert found[0].filename == "contrato.txt"
        assert {each.filename for each in found} == {"contrato.txt", "multa.txt"}

    @pytest.mark.parametrize("nothing", ["", "   ", "\0", "— … !"])
    async def test_nothing_asked_is_nothing_found(self, shelf: Documents, nothing: str) -> None:
        assert await shelf.search(nothing) == []

    async def test_signs_of_a_query_language_mean_nothing(self, shelf: Documents) -> None:
        for asked in ("a & | ! b", "'); drop table", "%(x)s", "<->:*"):
            await shelf.search(asked)
        with pytest.raises(ConfigurationError):
            await shelf.search("a", limit=0)

    async def test_what_was_removed_is_not_found(self, shelf: Documents) -> None:
        found = (await shelf.search("bolo de cenoura"))[0]
        assert found.filename == "bolo.txt"

        await shelf.remove(found.document_id)

        assert "bolo.txt" not in [each.filename for each in await shelf.search("bolo de cenoura")]


@pytest.mark.usefixtures("shelf")
class TestWithoutPgvector:
    async def test_numpy_finds_the_same_in_the_same_order(self, app: Retoma, embedder: Embedding) -> None:
        extension = await pgvector(app)
        assert extension is not None
        for asked in ("voo", "aluguel da casa", "chocolate", "dívida atrasada", "saúde"):
            (vector,) = (await embedder.embed([asked], timeout=20)).vectors

            exact = await one_by_one(app, vector, embedder, 6)
            indexed = await by_index(app, vector, embedder, 6, extension)
            assert [each[:2] for each in exact] == [each[:2] for each in indexed]
            assert [each.score for each in exact] == pytest.approx([each.score for each in indexed], abs=1e-4)

    async def test_pages_of_vectors_are_one_ranking(
        self, app: Retoma, embedder: Embedding, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (vector,) = (await embedder.embed(["vacina"], timeout=20)).vectors
        whole = await one_by_one(app, vector, embedder, 5)
        monkeypatch.setattr("retoma.pipelines.documents.search._AT_ONCE", 2)

        paged = await one_by_one(app, vector, embedder, 5)
        assert [each[:2] for each in paged] == [each[:2] for each in whole]

    async def test_a_database_without_the_extension_finds_the_same(
        self, shelf: Documents, psql: psycopg.Connection
    ) -> None:
        asked = ["como encerrar o acordo", "vacinas", "sobremesa"]
        before = [await shelf.search(each) for each in asked]

        psql.execute("drop extension vector cascade")

        after = [await shelf.search(each) for each in asked]
        for found, known in zip(after, before, strict=True):
            assert [replace(each, score=0) for each in found] == [replace(each, score=0) for each in known]
            assert [each.score for each in found] == pytest.approx([each.score for each in known], abs=1e-3)


@pytest.fixture
def crowd(psql: psycopg.Connection) -> psycopg.Connection:
    """Two thousand chunks with vectors by chance, a tenth of them of another model. The index is made afterwards, by
    the words of its own definition, for that is quicker.
    """
    definition = psql.execute("select pg_get_indexdef('retoma.document_chunks_near'::regclass)").fetchone()
    assert definition is not None
    psql.execute("drop index retoma.document_chunks_near")
    psql.execute(
        "with document as (insert into retoma.documents (filename, kind, mime_type, size, sha256, blob)"
        " values ('a', 'txt', 'text/plain', 1, 'a', 'a') returning id)"
        " insert into retoma.document_chunks (document_id, place, content, section_type, page_start, page_end,"
        " token_count, provider, model, dimensions, vector)"
        " select document.id, number, 'palavra' || number, 'texto_geral', 1, 1, 1, 'local',"
        " case when number % 10 = 0 then 'rare' else 'model' end, 512,"
        " (select array_agg((random() - 0.5)::real) from generate_series(1, 512) where number > 0)"
        " from document, generate_series(1, 2000) as number"
    )
    psql.execute(definition[0])
    psql.execute("analyze retoma.document_chunks")
    return psql


def test_searches_go_by_their_indexes_and_a_filter_does_not_starve_them(crowd: psycopg.Connection) -> None:
    def plan(query: Query[object]) -> str:
        return "\n".join(row[0] for row in crowd.execute(f"explain {query.sql}", query.params))

    vector = crowd.execute("select vector from retoma.document_chunks limit 1").fetchone()[0]  # type: ignore[index]
    with crowd.transaction():
        crowd.execute(look_further().sql)
        crowd.execute("set local enable_sort = off")  # so few rows would rather be sorted
        for model in ("model", "rare"):
            query = search_queries.near(vector, provider="local", model=model, limit=50)
            assert "document_chunks_near" in plan(query)
            assert len(crowd.execute(query.sql, query.params).fetchall()) == 50
    asked = search_queries.weighed(["'palavra77'"])
    assert "document_chunks_words" in plan(asked)
    words = [Weighed(*row) for row in crowd.execute(asked.sql, asked.params)]
    words_asked = search_queries.by_words(words, limit=30)
    assert "document_chunks_words" in plan(words_asked)
    assert len(crowd.execute(words_asked.sql, words_asked.params).fetchall()) == 1
