"""The blocks of refinements.sql: what a refinement reads, keeps and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from retoma.model.batch import Batch
from retoma.pipelines.classification import refinements
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.refinements import Change, Gain, LabelGain
from retoma.testing import drain


@pytest.fixture
async def batch(library: Classification, project: Callable[..., Any]) -> Batch:
    """An execution of two documents, done."""
    started = await library.start(await project(model="local"))
    await drain(library.app)
    return started


def changed(id: int, was: str) -> Change:
    return Change(id=id, was=was, label="laudo", confidence="media", score=0.7, margin=0.4, justification="perto")


class TestBegin:
    async def test_a_refinement_has_its_job_and_who_asked(self, library: Classification, batch: Batch) -> None:
        asked, new = await library.refine(batch.id, by="ana")

        assert (asked.batch_id, asked.asked_by, asked.at_work, new) == (batch.id, "ana", True, True)


class TestPage:
    async def test_the_newest_comes_first(self, library: Classification, batch: Batch) -> None:
        first, _ = await library.refine(batch.id, by="ana")
        await drain(library.app)
        second, _ = await library.refine(batch.id, by="ana")

        assert [each.id for each in await library.refinements(batch.id)][:2] == [second.id, first.id]


class TestMaterial:
    async def test_a_result_comes_with_its_text_and_its_shares(self, library: Classification, batch: Batch) -> None:
        found = await library.app.fetch(refinements.material(batch.id))

        assert len(found) == 2
        assert all(each.text and each.shares and not each.decided and each.said is None for each in found)


class TestKeepVectors:
    async def test_the_same_text_is_kept_once(self, library: Classification) -> None:
        first = await library.app.fetch(refinements.keep_vectors("m", {"a": b"12", "b": b"34"}))
        again = await library.app.fetch(refinements.keep_vectors("m", {"a": b"99"}))

        assert (sorted(first), again) == (["a", "b"], [])


class TestVectors:
    async def test_a_vector_is_found_by_its_text_and_model(self, library: Classification) -> None:
        await library.app.fetch(refinements.keep_vectors("m", {"a": b"12"}))

        [kept] = await library.app.fetch(refinements.vectors("m", ["a", "b"]))

        assert bytes(kept.vector) == b"12"
        assert await library.app.fetch(refinements.vectors("other", ["a"])) == []


class TestChange:
    async def test_only_a_result_that_is_as_it_was_changes(self, library: Classification, batch: Batch) -> None:
        first, second = await library.results(batch.id)

        done = await library.app.fetch(
            refinements.change(batch.id, [changed(first.id, str(first.category)), changed(second.id, "outra")])
        )

        assert done == [first.id]
        assert [each.category for each in await library.results(batch.id)] == ["laudo", second.category]


class TestTellDesk:
    async def test_what_is_in_doubt_no_more_waits_no_more(
        self, library: Classification, batch: Batch, psql: Any
    ) -> None:
        psql.execute("update retoma.classifications set confidence = 'baixa' where batch_id = %s", [batch.id])
        psql.commit()
        waiting = len(await library.app.reviews.find(batch_id=batch.id))
        psql.execute("update retoma.classifications set confidence = 'alta' where batch_id = %s", [batch.id])
        psql.commit()

        await library.app.fetch(refinements.tell_desk(batch.id))

        assert (waiting, await library.app.reviews.find(batch_id=batch.id)) == (2, [])


class TestFinish:
    async def test_the_figures_come_back_as_they_were_kept(self, library: Classification, batch: Batch) -> None:
        asked, _ = await library.refine(batch.id, by="ana")
        gain = Gain(
            decided=1, agreed_after=1, labels=(LabelGain(label="ata", decided=1),), moves=(("ata", "laudo", 2),)
        )

        await library.app.fetch(
            refinements.finish(
                batch.id, asked.project_id, asked.job_id, examples=1, total=2, changed=2, gain=gain.as_json()
            )
        )

        now = await library.refinement(asked.id)
        assert (now.examples, now.total, now.changed, now.gain) == (1, 2, 2, gain)
