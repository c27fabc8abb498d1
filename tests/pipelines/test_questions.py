"""A question is weighed word by word, and words and meaning make one ranking."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from retoma.pipelines import questions
from retoma.pipelines.questions import Fit
from retoma.postgres.database import Database
from retoma.providers import Vectors
from retoma.store.query import Query


class TestSought:
    async def test_each_word_is_looked_for_with_and_without_its_accents(self, database: Database) -> None:
        assert await database.all(questions.sought("o município!")) == ["'municipi' | 'municípi'"]
        assert await database.all(questions.sought("municipio")) == ["'municipi' | 'municípi'"]

    @pytest.mark.parametrize(
        ("one", "many"),
        [
            ("decisão", "decisões"), ("decisao", "decisoes"), ("municipal", "municipais"), ("imóvel", "imóveis"),
            ("infantil", "infantis"), ("espanhol", "espanhóis"), ("homem", "homens"), ("lei", "leis"),
            ("juiz", "juízes"),
        ],
    )  # fmt: skip
    async def test_one_and_many_find_each_other(self, database: Database, one: str, many: str) -> None:
        texts = [f"Há {one} aqui.", f"Há {many} aqui."]

        for asked in (one, many):
            (sought,) = await database.all(questions.sought(asked))
            assert await database.all(_found(sought, texts)) == [True, True]

    @pytest.mark.parametrize("typed", ["", "de o a", "\"' & | ! <-> (", "\\", "\0"])
    async def test_what_says_nothing_is_no_word_and_never_an_error(self, database: Database, typed: str) -> None:
        assert await database.all(questions.sought(typed)) == []

    async def test_numbers_are_read_as_in_a_text(self, database: Database) -> None:
        (sought,) = await database.all(questions.sought("0001234-55.2023.8.26.0100?"))

        assert await database.all(_found(sought, ["Processo 0001234-55.2023.8.26.0100."])) == [True]


def _found(sought: str, texts: list[str]) -> Query[bool]:
    """Whether each text has the word, as the tables keep texts: with and without their accents."""
    words = "to_tsvector('portuguese', text) || to_tsvector('portuguese', translate(text, 'áéíóúãõç', 'aeiouaoc'))"
    given = "unnest(%(texts)s::text[]) with ordinality as given (text, number)"
    sql = f"select ({words}) @@ %(sought)s::tsquery from {given} order by number"
    return Query(sql, bool, {"sought": sought, "texts": texts})


def test_words_count_for_more_than_meaning_and_both_for_most() -> None:
    ranked = questions.blended(
        {"said": Fit(1.0, 2.0), "both": Fit(1.0, 1.9), "hardly": Fit(0.1, 0.1)}, {"meant": 0.8, "both": 0.7, "far": 0.4}
    )

    assert [key for key, _ in ranked] == ["both", "said", "meant", "hardly", "far"]
    assert dict(ranked)["said"] == pytest.approx(0.8)
    assert dict(ranked)["meant"] == pytest.approx(0.2)
    assert dict(ranked)["both"] == pytest.approx(0.8 * 0.95 + 0.2 * 0.75)


def test_where_hardly_a_word_is_found_the_meaning_decides() -> None:
    ranked = questions.blended({"said": Fit(0.2, 2.0), "both": Fit(0.1, 1.0)}, {"meant": 0.8, "far": 0.4})

    assert [key for key, _ in ranked] == ["meant", "said", "both", "far"]


def test_one_of_the_two_is_enough_and_none_is_nothing() -> None:
    assert questions.blended({}, {"a": 0.5}) == [("a", pytest.approx(0.2))]
    assert questions.blended({"a": Fit(1.0, 0.0)}, {}) == [("a", pytest.approx(0.8))]
    assert questions.blended({}, {}) == []


@dataclass
class Embedder:
    """As far as a ranking looks at it."""

    unrelated: float | None
    provider: str = "p"
    model: str = "m"
    dimensions: int = 2

    async def embed(self, texts: object, *, timeout: float) -> Vectors:
        raise NotImplementedError


def test_nothing_answers_when_no_word_and_no_meaning_is_near() -> None:
    far = {"a": 0.05, "b": 0.02}

    assert not questions.is_answered({}, far, Embedder(0.13))
    assert not questions.is_answered({"b": Fit(0.2, 0.01)}, far, Embedder(0.13))
    assert questions.is_answered({"b": Fit(1.0, 0.01)}, far, Embedder(0.13))
    assert questions.is_answered({}, {"a": 0.3}, Embedder(0.13))


def test_of_an_embedder_whose_scale_is_unknown_every_text_is_believed() -> None:
    assert questions.is_answered({}, {"a": 0.01}, Embedder(None))
    assert questions.is_answered({"a": Fit(0.1, 0.1)}, {}, Embedder(0.13))
    assert not questions.is_answered({}, {}, Embedder(0.13))
