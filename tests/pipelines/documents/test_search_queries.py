"""Chunks are found by vector and by words, and only among vectors of the same model."""

from __future__ import annotations

import struct
from typing import TypeVar
from uuid import UUID

import psycopg
import pytest

from retoma.pipelines import questions
from retoma.pipelines.documents import contents, search_queries
from retoma.pipelines.documents.model import Chunk
from retoma.pipelines.documents.search_queries import NOWHERE, Place
from retoma.store.query import Query

T = TypeVar("T")


def ask(connection: psycopg.Connection, query: Query[T]) -> list[T]:
    return [query.row(*row) for row in connection.execute(query.sql, query.params).fetchall()]


def towards(place: int, length: int = 512) -> list[float]:
    """A vector of its own direction."""
    return [1.0 if number == place else 0.1 for number in range(length)]


def put(psql: psycopg.Connection, texts: list[str], *, model: str = "m", length: int = 512) -> list[Place]:
    row = psql.execute(
        "insert into retoma.documents (filename, kind, mime_type, size, sha256, blob)"
        " values ('a.txt', 'txt', 'text/plain', 1, gen_random_uuid()::text, gen_random_uuid()::text) returning id"
    ).fetchone()
    assert row is not None
    id: UUID = row[0]
    chunks = [Chunk(place, text, "artigo", f"Art. {place}", 1, 2, 1) for place, text in enumerate(texts)]
    vectors = [towards(place, length) for place in range(len(texts))]
    ask(psql, contents.put_chunks(id, chunks, vectors, provider="local", model=model))
    return [Place(id, place) for place in range(len(texts))]


class TestNear:
    def test_the_nearest_comes_first_and_other_models_are_not_compared(self, psql: psycopg.Connection) -> None:
        places = put(psql, ["a", "b", "c"])
        put(psql, ["d", "e", "f"], model="other")

        found = ask(psql, search_queries.near(towards(1), provider="local", model="m", limit=9))

        assert next(each[:2] for each in found) == places[1]
        assert {each[:2] for each in found} == set(places)
        assert found[0].score == pytest.approx(1.0)


class TestNearWide:
    def test_the_nearest_comes_first(self, psql: psycopg.Connection) -> None:
        places = put(psql, ["a", "b", "c"], length=1536)
        put(psql, ["d"])

        found = ask(psql, search_queries.near_wide(towards(2, 1536), provider="local", model="m", limit=9))

        assert next(each[:2] for each in found) == places[2]
        assert {each[:2] for each in found} == set(places)
        assert found[0].score == pytest.approx(1.0)


class TestVectors:
    def test_they_come_page_by_page_packed_as_the_database_sends_them(self, psql: psycopg.Connection) -> None:
        places = put(psql, ["a", "b", "c"], length=4)

        first = ask(psql, search_queries.vectors(provider="local", model="m", dimensions=4, after=NOWHERE, limit=2))
        after = Place(first[-1].document_id, first[-1].place)
        rest = ask(psql, search_queries.vectors(provider="local", model="m", dimensions=4, after=after, limit=2))

        assert [(each.document_id, each.place) for each in (*first, *rest)] == places
        assert struct.unpack(">if", first[0].vector[20:28]) == (4, 1.0)
        assert (
            ask(psql, search_queries.vectors(provider="local", model="m", dimensions=5, after=NOWHERE, limit=2)) == []
        )


def weighed(psql: psycopg.Connection, text: str) -> list[questions.Weighed]:
    return ask(psql, search_queries.weighed(ask(psql, questions.sought(text))))


class TestWeighed:
    def test_a_rare_word_weighs_more_than_a_frequent_one_and_an_unknown_one_most(
        self, psql: psycopg.Connection
    ) -> None:
        put(psql, ["A casa amarela", "A casa azul", "A casa e o quintal"])

        found = sorted(weighed(psql, "a casa amarela: varanda?"), key=lambda each: -each.texts)

        assert [each.texts for each in found] == [3, 1, 0]
        assert found[0].weight < found[1].weight < found[2].weight


class TestByWords:
    def test_the_share_is_of_the_weight_of_all_words_that_were_asked(self, psql: psycopg.Connection) -> None:
        put(psql, ["A casa amarela", "A casa azul"])

        shares = {
            each.place: each.share
            for each in ask(psql, search_queries.by_words(weighed(psql, "casa amarela"), limit=9))
        }

        assert shares[0] == pytest.approx(1.0)
        assert 0 < shares[1] < 0.5

    def test_words_that_stand_in_every_chunk_find_those_that_have_them_all(self, psql: psycopg.Connection) -> None:
        put(psql, ["A casa amarela", "A casa azul", "A casa amarela de novo"])
        common = [each._replace(texts=5000) for each in weighed(psql, "casa amarela")]

        assert {each.place for each in ask(psql, search_queries.by_words(common, limit=9))} == {0, 2}

    @pytest.mark.parametrize("typed", ["locacao", "LOCAÇÃO", "locações"])
    def test_accents_and_endings_may_be_left_out_in_the_text_or_in_the_question(
        self, psql: psycopg.Connection, typed: str
    ) -> None:
        put(psql, ["Contrato de locação", "CONTRATO DE LOCACAO", "Outra coisa"])

        found = {each.place for each in ask(psql, search_queries.by_words(weighed(psql, typed), limit=9))}

        assert found == {0, 1}

    @pytest.mark.parametrize(
        ("asked", "places"),
        [
            ("locação", [0]),
            ("locacao", [0]),
            ("casa", [1, 2]),
            ("casa amarela", [2, 1]),
            ("o de e", []),
            ("nada disso", []),
        ],
    )
    def test_every_word_goes_before_some_words(self, psql: psycopg.Connection, asked: str, places: list[int]) -> None:
        put(psql, ["Contrato de locação", "A casa e o quintal", "A casa amarela e o quintal da vizinha"])

        assert [each.place for each in ask(psql, search_queries.by_words(weighed(psql, asked), limit=10))] == places

    def test_a_title_has_words_too_and_weighs_more(self, psql: psycopg.Connection) -> None:
        put(psql, ["um", "dois", "artigo art. 1"])

        assert next(each.place for each in ask(psql, search_queries.by_words(weighed(psql, "Art. 1"), limit=10))) in (
            1,
            2,
        )


class TestShown:
    def test_a_snippet_is_found_without_accents_and_without_any_word(self, psql: psycopg.Connection) -> None:
        places = put(psql, ["Um. Dois. A locação é mensal. Quatro."])

        bare = ask(psql, search_queries.shown(weighed(psql, "locacao"), places))
        none = ask(psql, search_queries.shown([], places))

        assert bare[0].snippet == "Um. … A locação é mensal."
        assert none[0].snippet == "Um. … Dois."

    def test_a_snippet_is_where_the_words_stand(self, psql: psycopg.Connection) -> None:
        long = "nada " * 200 + "e aqui está a rescisão do contrato " + "nada " * 200
        places = put(psql, [long, "curto"])

        found = {each.place: each for each in ask(psql, search_queries.shown(weighed(psql, "rescisão"), places))}

        assert "rescisão do contrato" in found[0].snippet
        assert len(found[0].snippet) < 400
        assert found[1].snippet == "curto"

    def test_a_snippet_is_the_two_sentences_with_most_of_the_words_in_their_order(
        self, psql: psycopg.Connection
    ) -> None:
        text = "Nada aqui. O prazo é de dez dias. Outra coisa. A multa corre depois do prazo; sem multa não há. Fim."
        places = put(psql, [text, "Um. Dois. Três."])

        found = {
            each.place: each.snippet for each in ask(psql, search_queries.shown(weighed(psql, "multa e prazo"), places))
        }

        assert found == {0: "O prazo é de dez dias. … A multa corre depois do prazo;", 1: "Um. … Dois."}

    def test_a_piece_is_shown_with_its_place(self, psql: psycopg.Connection) -> None:
        places = put(psql, ["rescisão", "curto"])

        found = {each.place: each for each in ask(psql, search_queries.shown(weighed(psql, "rescisão"), places))}

        assert (found[0].filename, found[0].page_start, found[0].page_end) == ("a.txt", 1, 2)
        assert (found[0].section_type, found[0].title) == ("artigo", "Art. 0")
