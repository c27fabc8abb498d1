"""The blocks of executions.sql."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from retoma.pipelines.classification import executions
from retoma.pipelines.classification.library import Classification


class TestCreate:
    async def test_a_batch_is_one_execution(self, library: Classification, project: Callable[..., Any]) -> None:
        batch = await library.start(await project())

        with pytest.raises(psycopg.errors.UniqueViolation):
            await library.app.fetch(executions.create(batch.id, 1, "x"))


class TestPage:
    async def test_every_figure_is_from_the_jobs_and_they_add_up(
        self, library: Classification, project: Callable[..., Any], psql: psycopg.Connection
    ) -> None:
        batch = await library.start(await project({f"{n}.txt": f"{n}" * 60 for n in "abcd"}))
        states = "update retoma.jobs set state = %s, finished_at = now(), attempt = 1 where key = %s"
        for state, key in (("completed", "a.txt"), ("failed", "b.txt"), ("skipped", "c.txt")):
            psql.execute(states, [state, key])

        (now,) = await library.app.fetch(executions.page(id=batch.id))

        assert (now.total, now.queued, now.completed, now.failed, now.skipped) == (4, 1, 1, 1, 1)
        assert (now.done, now.well, now.percent) == (3, 2, 75.0)

    async def test_of_a_project_in_a_state_and_not_archived(
        self, library: Classification, project: Callable[..., Any]
    ) -> None:
        one, other = await project(), await project()
        first, second = await library.start(one), await library.start(other)

        async def ids(**wanted: Any) -> list[int]:
            return [each.id for each in await library.app.fetch(executions.page(**wanted))]

        assert await ids() == [second.id, first.id]
        assert await ids(project_id=one) == [first.id]
        assert await ids(before=second.id) == [first.id]
        await library.app.batches.cancel(first.id)
        assert await ids(states=["cancelled"]) == [first.id]
        await library.archive(first.id)
        assert await ids(project_id=one) == []
        assert await ids(project_id=one, archived=True) == [first.id]


class TestArchive:
    async def test_only_what_has_ended(self, library: Classification, project: Callable[..., Any]) -> None:
        batch = await library.start(await project())

        assert await library.app.fetch(executions.archive(batch.id)) == []
        await library.app.batches.cancel(batch.id)
        assert await library.app.fetch(executions.archive(batch.id)) == [batch.id]


class TestUnfinished:
    async def test_the_newest_with_the_same_settings(
        self, library: Classification, project: Callable[..., Any]
    ) -> None:
        id = await project()
        first, second = await library.start(id), await library.start(id)
        settings = second.configuration["hash"]

        assert await library.app.fetch(executions.unfinished(id, settings)) == [second.id]
        assert await library.app.fetch(executions.unfinished(id, "other")) == []
        await library.app.batches.cancel(second.id)
        assert await library.app.fetch(executions.unfinished(id, settings)) == [first.id]


class TestReplanned:
    async def test_the_execution_is_found_by_its_new_settings(
        self, library: Classification, project: Callable[..., Any]
    ) -> None:
        id = await project()
        batch = await library.start(id)

        assert await library.app.fetch(executions.replanned(batch.id, "new")) == [batch.id]

        assert await library.app.fetch(executions.unfinished(id, "new")) == [batch.id]
        assert await library.app.fetch(executions.unfinished(id, batch.configuration["hash"])) == []


class TestMixed:
    async def test_it_is_mixed_when_the_names_of_the_categories_differ(
        self, library: Classification, project: Callable[..., Any]
    ) -> None:
        batch = await library.start(await project())
        how = batch.configuration

        async def planned(*names: str) -> bool:
            labels = [{"name": name, "description": "x"} for name in names]
            await library.app.batches.replan(batch.id, configuration={**how, "labels": labels, "hash": str(names)})
            [mixed] = await library.app.fetch(executions.mixed(batch.id))
            return mixed

        [before] = await library.app.fetch(executions.mixed(batch.id))
        names = [each["name"] for each in how["labels"]]
        assert (before, await planned(*reversed(names)), await planned("ata")) == (False, False, True)


class TestProjectOf:
    async def test_the_project_of_an_execution_and_of_no_other_batch(
        self, library: Classification, project: Callable[..., Any]
    ) -> None:
        one, other = await project(), await project()
        first, second = await library.start(one), await library.start(other)

        found = [await library.app.fetch(executions.project_of(id)) for id in (first.id, second.id, second.id + 1)]

        assert found == [[one], [other], []]
