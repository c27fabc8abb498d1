"""The hourly sweep: planted by every worker, and it deletes what nobody has owned for a day."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from retoma import Retoma, Run, Settings, pipeline
from retoma.errors import ConfigurationError
from retoma.pipelines import ALL, FILES
from retoma.pipelines.files.ingest import Files
from retoma.pipelines.files.sweep import sweep_blobs
from retoma.postgres.connections import run_on
from retoma.providers import BlobStore
from retoma.providers.folder import FolderBlobs
from retoma.testing import drain
from retoma.worker import maintenance_jobs


async def test_what_was_left_behind_goes_and_the_rest_stays(
    settings: Settings, tmp_path: Path, psql: psycopg.Connection
) -> None:
    async def text():
        yield b"um texto"

    providers = {BlobStore: FolderBlobs(tmp_path)}
    async with Retoma(settings=settings, pipelines=[sweep_blobs], providers=providers) as app:
        files = Files(app)
        old, young = [await files.take("a.txt", text(), kinds=["txt"]) for _ in range(2)]
        psql.execute("update retoma.loose_blobs set since = now() - interval '25 hours' where blob = %s", [old.blob])
        async with app.database.connection() as connection:
            await run_on(connection, maintenance_jobs.schedule_all("UTC", app.registry.pipelines.values()))
        job = await app.schedules.run("sweep-blobs")
        await drain(app)

        assert await app.jobs.output(sweep_blobs, job) == 1
        assert [await files.blobs.exists(each.blob) for each in (old, young)] == [False, True]
    assert psql.execute("select blob from retoma.loose_blobs").fetchall() == [(young.blob,)]


async def test_a_schedule_that_somebody_changed_is_left_as_it_is(settings: Settings, tmp_path: Path) -> None:
    async with Retoma(settings=settings, pipelines=[sweep_blobs], providers={BlobStore: FolderBlobs(tmp_path)}) as app:
        for cron in ("37 * * * *", "5 3 * * *"):
            async with app.database.connection() as connection:
                await run_on(connection, maintenance_jobs.schedule_all("UTC", app.registry.pipelines.values()))
            (planted,) = [each for each in await app.schedules.all() if each.name == "sweep-blobs"]
            assert planted.cron == cron
            await app.schedules.change("sweep-blobs", cron="5 3 * * *")


def test_the_ready_pipelines_are_swept_after() -> None:
    assert FILES in ALL
    assert sweep_blobs in FILES.load_pipelines()


def test_what_comes_by_the_clock_takes_no_input() -> None:
    async def handler(number: int, run: Run) -> None: ...

    with pytest.raises(ConfigurationError, match="the clock does not have"):
        pipeline("counted", cron="0 4 * * *")(handler)
