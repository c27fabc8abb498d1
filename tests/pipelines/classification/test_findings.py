"""The blocks of findings.sql."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from retoma.model.batch import Batch
from retoma.pipelines.classification import findings
from retoma.pipelines.classification.findings import Change
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.model import Result
from retoma.providers.local import LocalClassifier
from retoma.providers.local.encoder import Lexical
from retoma.testing import drain

BEFORE = {"category": "ata", "subcategory": None, "confidence": "alta"}
AFTER = {"category": "contrato", "subcategory": None, "confidence": "baixa", "score": 0.4, "margin": 0.1,
         "justification": "nearer"}  # fmt: skip


@pytest.fixture
async def batch(library: Classification, project: Callable[..., Any]) -> Batch:
    """An execution of two documents that has ended."""
    batch = await library.start(await project())
    await drain(library.app)
    return batch


async def first(library: Classification, batch: Batch) -> Result:
    return (await library.results(batch.id))[0]


async def planned(library: Classification, batch: Batch, *changes: tuple[int, dict[str, Any]]) -> int:
    (finding,) = await library.app.fetch(findings.find(batch.id, 1, outcome="refined", documents=2, changed=1))
    made = [Change(id, before, AFTER, {"rule": "centre"}) for id, before in changes]
    await library.app.fetch(findings.plan(finding, made))
    return int(finding)


class TestPlace:
    async def test_a_document_lies_where_its_last_result_says(self, library: Classification, batch: Batch) -> None:
        one = await first(library, batch)
        await library.app.fetch(findings.place(one.job_id, "space", b"\0\0"))

        placed = [each for each in await library.app.fetch(findings.material(batch.id)) if each.id == one.id]

        assert [(each.model, each.vector) for each in placed] == [("space", b"\0\0")]


class TestCopyPlace:
    async def test_what_was_taken_over_lies_where_it_was_taken_from(
        self, library: Classification, batch: Batch
    ) -> None:
        again = await library.start((await library.execution(batch.id)).project_id)
        await drain(library.app)

        one, two = (
            await library.app.fetch(findings.material(batch.id)),
            await library.app.fetch(findings.material(again.id)),
        )

        assert [each.vector for each in one] == [each.vector for each in two]
        assert all(each.vector for each in two)


class TestMaterial:
    async def test_documents_come_in_the_order_of_their_content_page_by_page(
        self, library: Classification, batch: Batch
    ) -> None:
        both = await library.app.fetch(findings.material(batch.id))
        after = (both[0].sha256, both[0].id)

        rest = await library.app.fetch(findings.material(batch.id, after=after))

        assert [each.sha256 for each in both] == sorted(each.sha256 for each in both)
        assert [each.id for each in rest] == [both[1].id]


class TestTexts:
    async def test_so_many_characters_of_each_text(self, library: Classification, batch: Batch) -> None:
        one = await first(library, batch)

        assert await library.app.fetch(findings.texts([one.id], length=3)) == [(one.id, "Ata")]


class TestFind:
    async def test_an_execution_that_is_gone_has_no_finding(self, library: Classification) -> None:
        assert await library.app.fetch(findings.find(404, 1, outcome="off", documents=0)) == []


class TestPlan:
    async def test_what_is_planned_changes_nothing_yet(self, library: Classification, batch: Batch) -> None:
        one = await first(library, batch)

        await planned(library, batch, (one.id, BEFORE))

        assert await first(library, batch) == one


class TestApply:
    async def test_a_change_is_made_once_and_says_what_the_result_was(
        self, library: Classification, batch: Batch
    ) -> None:
        one = await first(library, batch)
        finding = await planned(library, batch, (one.id, BEFORE))

        told = await library.app.fetch(findings.apply(finding, after=0, limit=10))
        again = await library.app.fetch(findings.apply(finding, after=0, limit=10))

        now = await first(library, batch)
        assert (told, again) == ([(one.id, True)], [(one.id, False)])
        assert (now.category, now.confidence, now.was_label) == ("contrato", "baixa", "ata")

    @pytest.mark.parametrize("how", ["decided_by = 'ana', decided_at = now()", "category = 'laudo'"])
    async def test_what_a_person_decided_or_what_is_another_by_now_is_left_alone(
        self, library: Classification, batch: Batch, psql: psycopg.Connection, how: str
    ) -> None:
        one = await first(library, batch)
        finding = await planned(library, batch, (one.id, BEFORE))
        psql.execute(f"update retoma.classifications set {how} where id = {one.id}")
        psql.commit()

        told = await library.app.fetch(findings.apply(finding, after=0, limit=10))

        assert told == [(one.id, False)]
        assert (await first(library, batch)).category != "contrato"


class TestLineUp:
    async def test_a_result_without_a_turn_loses_the_one_it_had(
        self, library: Classification, batch: Batch, psql: psycopg.Connection
    ) -> None:
        one, two = [each.id for each in await library.results(batch.id)][:2]
        await library.app.fetch(findings.line_up(batch.id, {one: 0.5, two: 0.25}))

        changed = await library.app.fetch(findings.line_up(batch.id, {two: 0.25}))

        turns = psql.execute("select result_id, turn from classification.document_vectors where turn is not null")
        assert (changed, turns.fetchall()) == ([one], [(two, 0.25)])


class TestUnplaced:
    async def test_only_what_lies_nowhere_in_this_space(self, library: Classification, batch: Batch) -> None:
        ids = [each.id for each in await library.results(batch.id)]
        model = LocalClassifier(Lexical()).space

        assert await library.app.fetch(findings.unplaced(batch.id, model, after=0, limit=10)) == []
        other = await library.app.fetch(findings.unplaced(batch.id, "another", after=0, limit=10))
        assert [id for id, text in other if text] == ids


class TestPut:
    async def test_a_result_lies_where_it_was_put_last(self, library: Classification, batch: Batch) -> None:
        one = await first(library, batch)

        done = await library.app.fetch(findings.put("another", [(one.id, b"12"), (404, b"34")]))

        assert done == [one.id]
        found = {each.id: each for each in await library.app.fetch(findings.material(batch.id))}
        assert (found[one.id].model, bytes(found[one.id].vector or b"")) == ("another", b"12")


class TestLatest:
    async def test_the_last_finding_with_what_of_it_is_applied(self, library: Classification, batch: Batch) -> None:
        one = await first(library, batch)
        finding = await planned(library, batch, (one.id, BEFORE))
        await library.app.fetch(findings.apply(finding, after=0, limit=10))

        (last,) = await library.app.fetch(findings.latest(batch.id))

        assert (last.id, last.outcome, last.changed, last.applied) == (finding, "refined", 1, 1)
