"""Classification, for programs: prompts, projects, documents, executions, results. The routes and the command line are
made of this and of nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any

from retoma.errors import BatchConflict, NotFound
from retoma.model.batch import Batch, BatchState, Progress, Resumed
from retoma.model.ids import BatchId
from retoma.pipelines.classification import execution as starting
from retoma.pipelines.classification import executions, exports, findings, pictures, preview, results
from retoma.pipelines.classification.findings import Finding
from retoma.pipelines.classification.intake import pieces_of
from retoma.pipelines.classification.model import Execution, Project, Result, SavedPrompt
from retoma.pipelines.classification.preview import Trial
from retoma.pipelines.classification.teaching import Lessons

ROUTE = starting.ROUTE
_OPEN = (BatchState.QUEUED, BatchState.RUNNING, BatchState.PAUSED, BatchState.STALLED)


class Classification(Lessons):
    """What can be asked of classification, on an open app. Where a method takes *conn*, its changes commit or roll
    back with the caller's own.
    """

    # — executions —

    async def start(
        self,
        project_id: int,
        *,
        documents: Sequence[int] | None = None,
        reuse: bool = True,
        refine: bool = True,
        name: str | None = None,
        correlation_id: str | None = None,
        conn: object = None,
    ) -> Batch:
        """Begin to classify the project, or some of its *documents*; comes back at once. What an earlier execution
        found in the same content with the same settings is taken over, unless *reuse* is False. When all have ended,
        the batch judges them by each other, unless *refine* is False.
        """
        return (
            await self.begin(
                project_id,
                documents=documents,
                reuse=reuse,
                refine=refine,
                name=name,
                correlation_id=correlation_id,
                again=True,
                conn=conn,
            )
        )[0]

    async def begin(
        self,
        project_id: int,
        *,
        documents: Sequence[int] | None = None,
        reuse: bool = True,
        refine: bool = True,
        name: str | None = None,
        correlation_id: str | None = None,
        again: bool = False,
        pilot: int = 0,
        conn: object = None,
    ) -> tuple[Batch, bool]:
        """As *start*, but an execution of the whole project with the same settings that has not ended is gone on with
        instead; whether it is new. Of several who ask at once, one begins it. With a *pilot* so many documents are
        classified first, and the others are held until the batch is released.
        """
        async with self._within(conn) as connection:
            project = await self.project(project_id, hold=True, conn=connection)
            how = starting.configuration(
                self.app, project, await self._prompt_of(project, connection), reuse=reuse, refine=refine
            )
            if documents is None and not again:
                rows = await self._rows(executions.unfinished(project_id, how["hash"]), connection)
                if rows:
                    return await self.app.batches.get(BatchId(rows[0]), conn=connection), False
            batch = await starting.start(
                self.app,
                project,
                how,
                connection,
                documents=documents,
                name=name,
                correlation_id=correlation_id,
                pilot=pilot,
            )
            return batch, True

    async def unfinished(self, project_id: int, *, conn: object = None) -> int | None:
        """The newest execution of the project with its present settings that has not ended."""
        project = await self.project(project_id, conn=conn)
        how = starting.configuration(self.app, project, await self._prompt_of(project, conn))
        rows = await self._rows(executions.unfinished(project_id, how["hash"]), conn)
        return rows[0] if rows else None

    async def _prompt_of(self, project: Project, conn: object) -> SavedPrompt:
        if project.prompt_id is None:
            return await self.default_prompt(conn=conn)
        return await self.prompt(project.prompt_id, conn=conn)

    async def execution(self, id: BatchId, *, hold: bool = False, conn: object = None) -> Execution:
        """An execution as it stands, every figure from one snapshot; *hold* it and nobody else gives it orders until
        the transaction ends.
        """
        if hold:
            await self.app.batches.hold(id, conn=conn)
        rows = await self._rows(executions.page(id=id, archived=True), conn)
        if not rows:
            raise NotFound(f"There is no execution {id}.")
        return rows[0]

    async def executions(
        self, *, project_id: int | None = None, before: int | None = None, limit: int = 100
    ) -> list[Execution]:
        """Executions that were not archived, newest first."""
        return await self._rows(executions.page(project_id=project_id, before=before, limit=limit))

    async def running(self, *, limit: int = 100) -> list[Execution]:
        """Those that have not ended, newest first."""
        return await self._rows(executions.page(states=_OPEN, limit=limit))

    async def detail(self, id: BatchId) -> tuple[Execution, Progress, list[Result]]:
        """How an execution stands, its pace, and the documents that failed, the newest error first."""
        return await self.execution(id), await self.app.batches.progress(id), await self.errors(id)

    async def errors(self, id: BatchId, *, limit: int = 10_000) -> list[Result]:
        """The documents that failed, the newest error first."""
        await self.execution(id)
        rows = await self._rows(results.page(id, states=["failed"], limit=limit))
        return sorted(rows, key=lambda each: (each.failed_at or each.created_at, each.id), reverse=True)

    async def results(
        self,
        id: int,
        *,
        category: str | None = None,
        confidence: str | None = None,
        only_errors: bool = False,
        jobs: Sequence[int] | None = None,
        after: int = 0,
        limit: int = 1000,
    ) -> list[Result]:
        """The documents of an execution in order, *after* a result's id for the next page."""
        states = ["failed"] if only_errors else None
        query = results.page(
            id, category=category, confidence=confidence, states=states, jobs=jobs, after=after, limit=limit
        )
        return await self._rows(query)

    async def picture_source(self, id: int, result: int) -> pictures.Source:
        """What the picture of a document's page is drawn from."""
        rows = await self._rows(pictures.source(id, result))
        if not rows:
            raise NotFound(f"Execution {id} has no document {result}.")
        return rows[0]

    async def mosaic(self, id: int) -> str:
        """One letter per document in order: q queued, r running, c completed, s skipped, f failed, x cancelled."""
        return (await self._rows(results.mosaic(id)))[0]

    async def categories(self, id: int) -> list[tuple[str, str, int]]:
        """Category, confidence, and how many documents."""
        return await self._rows(results.categories(id))

    async def finding(self, id: int) -> Finding | None:
        """What the batch said of its documents when it was judged as a whole; None until it was."""
        rows = await self._rows(findings.latest(id))
        return rows[0] if rows else None

    async def resume(self, id: BatchId, *, by: str = "person", conn: object = None) -> Resumed:
        """Continue from where it stopped; asked again while it runs, it says that it does."""
        await self.execution(id, conn=conn)
        return await self.app.batches.resume(id, by=by, conn=conn)

    async def replan(
        self,
        id: BatchId,
        prompt_id: int,
        *,
        model: str | None = None,
        note: str | None = None,
        by: str = "person",
        wait: bool = True,
        conn: object = None,
    ) -> Resumed:
        """Give the documents that have not begun another prompt, and another *model* when one is named. Those that have
        begun go on with theirs; ``app.batches.cohorts`` compares them. When the new prompt has other categories, the
        results are not judged by each other at the end.
        """
        async with self._within(conn) as connection:
            found = await self.execution(id, hold=True, conn=connection)
            prompt = await self.prompt(prompt_id, hold=True, conn=connection)
            how = starting.replanned(self.app, found.configuration, prompt, model=model)
            done = await self.app.batches.replan(
                id, configuration=how, note=note or prompt.name, by=by, wait=False, conn=connection
            )
            if done.changed:
                await self._rows(executions.replanned(id, how["hash"]), connection)
        if wait and conn is None and done.batch.operation_id is not None:
            async for _ in self.app.batches.carry_out(done.batch.operation_id):
                pass
        return done

    async def retry_failed(self, id: BatchId, *, by: str = "person", wait: bool = True, conn: object = None) -> Resumed:
        """Try only the documents that failed again."""
        await self.execution(id, conn=conn)
        return await self.app.batches.retry_failed(id, by=by, wait=wait, conn=conn)

    async def archive(self, id: BatchId, *, by: str = "person", conn: object = None) -> None:
        """Take an execution out of the lists; refused while it runs, and one that has stalled is cancelled first."""
        async with self._within(conn) as connection:
            found = await self.execution(id, conn=connection)
            if found.state in (BatchState.STALLED, BatchState.PAUSED):
                await self.app.batches.cancel(id, by=by, conn=connection)
            elif not found.state.ended:
                raise BatchConflict(f"Execution {id} is at work.", code="conflict", next="Cancel it first.")
            await self._rows(executions.archive(id), connection)

    def export(self, id: BatchId, format: str) -> AsyncIterator[bytes]:
        """All results of an execution as "xlsx", "csv" or "json", in pieces."""
        return exports.export(self, id, format)

    # — one document that is not kept —

    async def classify_one(
        self,
        filename: str,
        content: bytes | AsyncIterable[bytes],
        *,
        prompt: str | None = None,
        prompt_id: int | None = None,
        **given: Any,
    ) -> Trial:
        """One document, read and classified now; it is not kept, and what a model was asked is written down. *given*
        may hold model, mode, position and chunk_tokens.
        """
        if prompt is None:
            saved = await (self.default_prompt() if prompt_id is None else self.prompt(prompt_id))
            prompt = saved.content
        pieces = pieces_of(content) if isinstance(content, bytes) else content
        return await preview.tried(self.app, filename, pieces, prompt, **given)

    def models(self) -> list[str]:
        """The models that can be asked for here, the usual one first."""
        return starting.models(self.app)
