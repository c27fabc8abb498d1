"""The blocks of texts.sql."""

from __future__ import annotations

import asyncio
import math

import psycopg
import pytest

from retoma.pipelines import questions
from retoma.pipelines.embeddings import sources, texts
from retoma.pipelines.embeddings.sources import Beginning
from retoma.pipelines.embeddings.texts import Space
from retoma.postgres.database import Database, fetch

HERE = Space("acme", "main", "biller", "clerk")
ELSEWHERE = Space("acme", "shop", "biller", "clerk")
BY = {"provider": "biller", "model": "clerk"}


def turned(degrees: float, dimensions: int = 512) -> list[float]:
    """A vector that stands at this angle to the first axis."""
    angle = math.radians(degrees)
    return [math.cos(angle), math.sin(angle), *[0.0] * (dimensions - 2)]


async def keep(database: Database, name: str, vector: list[float], *, space: Space = HERE, active: bool = True) -> int:
    """A text called *name*, said by a source of that name."""
    (id,) = await database.all(
        texts.store(
            space,
            content_hash=name,
            content=f"O texto {name}",
            language="pt",
            vector=vector,
            job_id=7,
            correlation_id=None,
        )
    )
    if active:
        source = (space.organisation, space.site, "page", name)
        await database.all(sources.begin([Beginning(source, 1, name, "pt", 7, stored=True)], **BY, correlation_id=None))
    return id


class TestHold:
    async def test_one_at_a_time_and_only_for_the_same_site(self, database: Database) -> None:
        async with database.transaction() as mine, database.transaction() as other:
            assert len(await fetch(mine, texts.hold([("acme", "main"), ("acme", "main"), ("acme", "shop")]))) == 2
            await fetch(other, texts.hold([("acme", "lab"), ("zoo", "main")]))
            await other.execute("set local lock_timeout = '50ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                await fetch(other, texts.hold([("acme", "shop")]))


class TestShare:
    async def test_side_by_side_and_never_while_somebody_holds(self, database: Database) -> None:
        async with database.transaction() as mine, database.transaction() as other:
            await fetch(mine, texts.share("acme", "main"))
            await fetch(other, texts.share("acme", "main"))
            await other.execute("set local lock_timeout = '50ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                await fetch(other, texts.hold([("acme", "main")]))


class TestKnown:
    async def test_those_that_have_a_vector_by_their_place(self, database: Database) -> None:
        id = await keep(database, "a", turned(0))

        asked = [("acme", "main", "b"), ("acme", "main", "a"), ("acme", "shop", "a")]
        assert await database.all(texts.known(asked, **BY)) == [(2, id, 7)]
        assert await database.all(texts.known(asked, provider="biller", model="scholar")) == []


class TestStore:
    async def test_the_first_stays(self, database: Database, psql: psycopg.Connection) -> None:
        query = texts.store(
            HERE, content_hash="a", content="um", language=None, vector=[1.0, 0.5], job_id=7, correlation_id="c"
        )

        stored = await asyncio.gather(*(database.all(query) for _ in range(8)))

        assert sorted(map(len, stored)) == [0] * 7 + [1]
        rows = psql.execute("select dimensions, vector, job_id, correlation_id from retoma.embeddings").fetchall()
        assert rows == [(2, [1.0, 0.5], 7, "c")]


class TestNearSmall:
    async def test_the_nearest_that_are_said_now_in_this_site(self, database: Database) -> None:
        far = await keep(database, "far", turned(80))
        near = await keep(database, "near", turned(10))
        await keep(database, "off", turned(1), active=False)
        await keep(database, "other site", turned(2), space=ELSEWHERE)
        await keep(database, "long", turned(3, 1536))

        found = await database.all(texts.near_small(HERE, turned(0), limit=5))

        assert [each.id for each in found] == [near, far]
        assert found[0].similarity == pytest.approx(math.cos(math.radians(10)), abs=1e-6)

    async def test_the_index_can_serve_the_order(self, database: Database) -> None:
        assert "embeddings_by_meaning_512" in await plan(database, texts.near_small(HERE, turned(0), limit=5))


class TestNearLarge:
    async def test_the_same_for_longer_vectors(self, database: Database) -> None:
        far = await keep(database, "far", turned(80, 1536))
        near = await keep(database, "near", turned(10, 1536))
        await keep(database, "short", turned(1))

        found = await database.all(texts.near_large(HERE, turned(0, 1536), limit=5))

        assert [each.id for each in found] == [near, far]

    async def test_the_index_can_serve_the_order(self, database: Database) -> None:
        assert "embeddings_by_meaning_1536" in await plan(database, texts.near_large(HERE, turned(0, 1536), limit=5))


async def plan(database: Database, query: object) -> str:
    async with database.transaction() as connection:
        await connection.execute("set local enable_seqscan = off")
        await connection.execute("set local enable_sort = off")
        rows = await (await connection.execute("explain " + query.sql, query.params)).fetchall()  # type: ignore[attr-defined]
    return "\n".join(line for (line,) in rows)


class TestPage:
    async def test_a_bounded_number_after_an_id(self, database: Database) -> None:
        ids = [await keep(database, f"{number}", turned(number)) for number in range(3)]
        await keep(database, "off", turned(1), active=False)
        await keep(database, "long", turned(3, 1536))

        first = await database.all(texts.page(HERE, dimensions=512, after=0, limit=2))
        rest = await database.all(texts.page(HERE, dimensions=512, after=first[-1].id, limit=2))

        assert [each.id for each in (*first, *rest)] == ids
        assert first[1].vector == pytest.approx(turned(1))


async def weighed(database: Database, text: str) -> list[questions.Weighed]:
    return await database.all(texts.weighed(await database.all(questions.sought(text))))


class TestWeighed:
    async def test_a_rare_word_weighs_more_than_a_frequent_one(self, database: Database) -> None:
        await keep(database, "gatos", turned(0))
        await keep(database, "gatos e peixes", turned(0))

        fish, cat = sorted(await weighed(database, "gato peixe"), key=lambda each: each.texts)

        assert (fish.texts, cat.texts) == (1, 2)
        assert fish.weight > cat.weight


class TestWorded:
    async def test_by_their_words_and_never_an_error(self, database: Database) -> None:
        id = await keep(database, "gatos", turned(0))
        await keep(database, "cães", turned(0))
        await keep(database, "gata", turned(0), space=ELSEWHERE)

        assert [
            each.id for each in await database.all(texts.worded(HERE, await weighed(database, "gato"), limit=5))
        ] == [id]
        assert await database.all(texts.worded(HERE, await weighed(database, "\"' & | ! <-> ("), limit=5)) == []

    async def test_texts_with_every_word_come_before_those_with_any(self, database: Database) -> None:
        either = await keep(database, "cães", turned(0))
        both = await keep(database, "gatos e cães", turned(0))
        await keep(database, "peixes", turned(0))

        found = await database.all(texts.worded(HERE, await weighed(database, "onde há um gato e um cão?"), limit=5))

        assert [each.id for each in found] == [both, either]

    @pytest.mark.parametrize("typed", ["locacao", "locacoes", "locações", "LOCAÇÃO?"])
    async def test_accents_and_the_plural_may_be_left_out(self, database: Database, typed: str) -> None:
        id = await keep(database, "contrato de locação", turned(0))
        await keep(database, "peixes", turned(0))

        assert [
            each.id for each in await database.all(texts.worded(HERE, await weighed(database, typed), limit=5))
        ] == [id]


class TestTold:
    async def test_the_excerpt_is_the_two_sentences_that_fit_best(self, database: Database) -> None:
        id = await keep(database, "um. O prazo é de dez dias. Nada. A multa corre depois do prazo. Fim", turned(0))

        (told,) = await database.all(texts.told([id], words=await weighed(database, "multa e prazo")))

        assert told.excerpt == "O prazo é de dez dias. … A multa corre depois do prazo."

    async def test_who_says_it_now(self, database: Database) -> None:
        said = await keep(database, "a", turned(0))
        silent = await keep(database, "b", turned(0), active=False)

        (told,) = await database.all(texts.told([said, silent], words=await weighed(database, "texto")))

        assert (told.id, told.excerpt, told.language) == (said, "O texto a", "pt")
        assert (told.source_types, told.source_ids) == (["page"], ["a"])


class TestStored:
    async def test_of_all_of_one_organisation_and_of_one_site(self, database: Database) -> None:
        await keep(database, "a", turned(0))
        await keep(database, "a", turned(0), space=ELSEWHERE)

        asked = [(None, None), ("acme", None), ("acme", "main"), ("zoo", None)]
        assert [await database.all(texts.stored(*each)) for each in asked] == [[2], [2], [1], [0]]
