"""The blocks of refinements.sql: what a refinement reads, keeps and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from retoma.model.batch import Batch
from retoma.pipelines.classification import findings, refinements
from retoma.pipelines.classification.findings import Change
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.refinements import Gain, LabelGain
from retoma.testing import drain


@pytest.fixture
async def batch(library: Classification, project: Callable[..., Any]) -> Batch:
    """An execution of two documents, done."""
    started = await library.start(await project(model="local"))
    await drain(library.app)
    return started


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


class TestKeepVectors:
    async def test_the_same_text_is_kept_once(self, library: Classification) -> None:
        first = await library.app.fetch(refinements.keep_vectors("m", {"a": b"12", "b": b"34"}))
        again = await library.app.fetch(refinements.keep_vectors("m", {"a": b"99"}))

        assert (sorted(first), again) == (["a", "b"], [])


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

    async def test_what_waits_is_asked_in_its_turn(self, library: Classification, batch: Batch, psql: Any) -> None:
        psql.execute("update retoma.classifications set confidence = 'baixa' where batch_id = %s", [batch.id])
        psql.commit()
        await library.app.reviews.find(batch_id=batch.id)
        first, second = [each.id for each in await library.results(batch.id)]
        await library.app.fetch(findings.line_up(batch.id, {first: 0.9, second: 0.1}))

        await library.app.fetch(refinements.tell_desk(batch.id))

        waiting = await library.app.reviews.find(batch_id=batch.id)
        assert [int(each.item) for each in waiting] == [second, first]


class TestFinish:
    async def test_the_figures_come_back_as_they_were_kept(self, library: Classification, batch: Batch) -> None:
        asked, _ = await library.refine(batch.id, by="ana")
        gain = Gain(
            decided=1, agreed_after=1, labels=(LabelGain(label="ata", decided=1),), moves=(("ata", "laudo", 2),)
        )

        one, two = await library.results(batch.id)
        finding = await planned(library, batch, {one.id: "laudo", two.id: str(two.category)})
        await library.app.fetch(findings.apply(finding, after=0, limit=10))

        await library.app.fetch(
            refinements.finish(
                batch.id, asked.project_id, asked.job_id, finding, examples=1, total=2, gain=orjson.dumps(gain).decode()
            )
        )

        now = await library.refinement(asked.id)
        assert (now.examples, now.total, now.changed, now.gain) == (1, 2, 1, gain), "one label is another"


async def planned(library: Classification, batch: Batch, labels: dict[int, str]) -> int:
    """A finding that gives results these labels, and a low confidence."""
    (finding,) = await library.app.fetch(findings.find(batch.id, 1, outcome="refined", documents=2))
    changes = []
    for each in await library.results(batch.id):
        before = {"category": each.category, "subcategory": None}
        after = {"category": labels[each.id], "subcategory": None, "confidence": "baixa"}
        changes.append(Change(each.id, before, after, {"rule": "centre"}))
    await library.app.fetch(findings.plan(finding, changes))
    return int(finding)
