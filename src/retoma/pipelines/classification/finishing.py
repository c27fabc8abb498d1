"""The two occasions on which an execution is refined: its last step, and whenever somebody asks for it."""

from __future__ import annotations

from typing import Any

import psycopg

from retoma.app.fetch import fetch
from retoma.model.endings import Reject
from retoma.model.last_step import BatchEnd
from retoma.model.retry import Retry
from retoma.pipelines.classification import executions
from retoma.pipelines.classification.labels import LOCAL
from retoma.pipelines.classification.refinement import Refined, Wish, refined, set_aside
from retoma.providers import Classifier
from retoma.run.pipeline import pipeline
from retoma.run.run import Run

_RETRY = Retry(attempts=3, wait=5.0, factor=2.0)


@pipeline("classification-batch", internal=True, queue="classification", retry=_RETRY, timeout=3600.0)
async def refine_batch(end: BatchEnd, run: Run, *, classifier: Classifier) -> Refined:
    """Judge the documents of a batch by each other when all of them have ended."""
    how = run.configuration
    if not how.get("refine", True) or how.get("model") != LOCAL:
        return await set_aside(end.batch_id, run, "off")
    project = await run.transact("project", _project, end.batch_id)
    if await run.transact("mixed", _mixed, end.batch_id):
        return await set_aside(end.batch_id, run, "off")
    wish = Wish(batch_id=end.batch_id, project_id=project, labels=how["labels"])
    return await refined(wish, run, classifier, asked=False)


@pipeline("classification-refine", internal=True, queue="classification", retry=_RETRY, timeout=3600.0)
async def refine_execution(wish: Wish, run: Run, *, classifier: Classifier) -> Refined:
    """Judge them again, with what people have taught since."""
    return await refined(wish, run, classifier, asked=True)


async def _mixed(connection: psycopg.AsyncConnection[Any], batch_id: int) -> bool:
    """Whether a re-plan gave a part of the documents other categories."""
    [mixed] = await fetch(connection, executions.mixed(batch_id))
    return mixed


async def _project(connection: psycopg.AsyncConnection[Any], batch_id: int) -> int:
    rows = await fetch(connection, executions.project_of(batch_id))
    if not rows:
        raise Reject("execution_gone: the execution of this batch was removed; nothing is left to judge.")
    return rows[0]
