"""What executions are made of: prompts, projects and their documents."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from retoma.app.access.audit import Entry
from retoma.app.retoma import Retoma
from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.pipelines.classification import documents, execution, labels, projects, prompts
from retoma.pipelines.classification.intake import Intaking, Told, pieces_of
from retoma.pipelines.classification.model import (
    Added,
    Announced,
    Intake,
    Project,
    ProjectDocument,
    SavedPrompt,
)
from retoma.store.query import Query
from retoma.values.text import unstorable_mark

T = TypeVar("T")

_LONGEST_NOTE = 2_000


class Catalogue:
    """Prompts, projects and documents, on an open app."""

    def __init__(self, app: Retoma) -> None:
        self.app = app

    async def _rows(self, query: Query[T], conn: object = None) -> list[T]:
        return await self.app.fetch(query, conn=conn)

    def _within(self, conn: object) -> AbstractAsyncContextManager[Any]:
        return self.app.transaction() if conn is None else nullcontext(conn)

    # — prompts —

    async def prompts(self, *, name: str | None = None, conn: object = None) -> list[SavedPrompt]:
        """The active prompts, by name; that of the house is always among the first to be there."""
        return await self._rows(prompts.page(name), conn)

    async def prompt(self, id: int, *, hold: bool = False, conn: object = None) -> SavedPrompt:
        """A prompt as it stands, also one that was archived; *hold* it and it stays so until the transaction ends."""
        if hold:
            await self._rows(prompts.hold(id), conn)
        rows = await self._rows(prompts.one(id), conn)
        if not rows:
            raise NotFound(f"There is no prompt {id}.")
        return rows[0]

    async def create_prompt(
        self,
        name: str,
        content: str,
        *,
        description: str | None = None,
        document_codes: str | None = None,
        conn: object = None,
    ) -> SavedPrompt:
        """A new prompt. Its categories are read now, so that a slip is told here and not by 2,000 documents."""
        sha = _version(content)
        _noted(description)
        query = prompts.create(
            _named(name, "prompt"), content, sha, description=description, document_codes=document_codes
        )
        rows = await self._rows(query, conn)
        if not rows:
            raise Conflict(
                f"There is a prompt called {name!r} already.", next="Change that one, or choose another name."
            )
        return await self.prompt(rows[0], conn=conn)

    async def change_prompt(
        self,
        id: int,
        *,
        name: str | None = None,
        content: str | None = None,
        description: str | None = None,
        document_codes: str | None = None,
        conn: object = None,
    ) -> SavedPrompt:
        """Another name or text; executions keep the text they were made with, and the old one stays as a version."""
        if name is not None and any(each.id != id for each in await self.prompts(name=name, conn=conn)):
            raise Conflict(f"There is a prompt called {name!r} already.", next="Choose another name.")
        _noted(description)
        query = prompts.change(
            id,
            name=None if name is None else _named(name, "prompt"),
            content=content,
            sha=None if content is None else _version(content),
            description=description,
            document_codes=document_codes,
        )
        if not await self._rows(query, conn):
            raise NotFound(f"There is no active prompt {id}.")
        return await self.prompt(id, conn=conn)

    async def archive_prompt(self, id: int, *, conn: object = None) -> None:
        """Take a prompt out of the lists."""
        if not await self._rows(prompts.archive(id), conn):
            raise NotFound(f"There is no prompt {id}.")

    async def prompt_versions(self, id: int) -> list[tuple[str, str, datetime]]:
        """Every text a prompt had: its hash, the text, and since when."""
        return await self._rows(prompts.versions(id))

    async def default_prompt(self, *, conn: object = None) -> SavedPrompt:
        """The house's own prompt; made when it is first asked for."""
        if found := await self.prompts(name=labels.DEFAULT_NAME, conn=conn):
            return found[0]
        content = labels.default_content()
        told = "Petição, sentença, contrato, procuração, nota fiscal, ata, laudo, currículo."
        sha = _version(content)
        await self._rows(prompts.create(labels.DEFAULT_NAME, content, sha, description=told, document_codes=None), conn)
        return (await self.prompts(name=labels.DEFAULT_NAME, conn=conn))[0]

    # — projects —

    async def projects(
        self,
        *,
        name: str | None = None,
        search: str | None = None,
        before: int | None = None,
        limit: int = 200,
        conn: object = None,
    ) -> list[Project]:
        """The active projects, newest first; of one *name*, or with a text to *search* for in it."""
        return await self._rows(projects.page(name=name, search=search, before=before, limit=limit), conn)

    async def project(self, id: int, *, hold: bool = False, conn: object = None) -> Project:
        """A project as it stands; *hold* it and it stays so until the transaction ends."""
        if hold:
            await self._rows(projects.hold(id), conn)
        rows = await self._rows(projects.one(id), conn)
        if not rows or rows[0].archived_at is not None:
            raise NotFound(f"There is no project {id}.")
        return rows[0]

    async def create_project(self, name: str, *, conn: object = None, **given: Any) -> Project:
        """A new project. *given* may hold description, prompt_id, model, mode, position, chunk_tokens, at_once,
        max_resumes and max_retries.
        """
        part = given.get("position") is not None or given.get("chunk_tokens") is not None
        mode = given.get("mode") or execution.usual_mode(self.app, given.get("model"), part=part)
        values = execution.checked({**given, "name": _named(name, "project"), "mode": mode}, whole=True)
        if values["prompt_id"] is not None:
            await self.prompt(values["prompt_id"], conn=conn)
        (id,) = await self._rows(projects.create(values), conn)
        return await self.project(id, conn=conn)

    async def change_project(self, id: int, *, conn: object = None, **given: Any) -> Project:
        """Other settings; executions that are there keep theirs."""
        if given.get("prompt_id") is not None:
            await self.prompt(given["prompt_id"], conn=conn)
        if not await self._rows(projects.change(id, execution.checked(given, whole=False)), conn):
            raise NotFound(f"There is no project {id}.")
        return await self.project(id, conn=conn)

    async def archive_project(self, id: int, *, conn: object = None) -> None:
        """Take a project out of the lists; its executions go on and stay."""
        if not await self._rows(projects.archive(id), conn):
            raise NotFound(f"There is no project {id}.")

    # — documents —

    async def documents(self, project_id: int, *, after: int = 0, limit: int = 1000) -> list[ProjectDocument]:
        """The documents of a project in the order in which they came, *after* an id for the next page."""
        await self.project(project_id)
        return await self._rows(documents.page(project_id, after=after, limit=limit))

    async def document(self, id: int, *, conn: object = None) -> ProjectDocument:
        """A document as it stands."""
        rows = await self._rows(documents.one(id), conn)
        if not rows:
            raise NotFound(f"There is no document {id}.")
        return rows[0]

    async def announce(self, project_id: int, given: Sequence[Announced], *, conn: object = None) -> int:
        """Codes of documents whose files are still to come; how many are new. A file that is called like a code, with
        or without its ending, becomes that document.
        """
        await self.project(project_id, conn=conn)
        unique = {each.code: each for each in given}
        for code in unique:
            if not 0 < len(code) <= documents.LONGEST_CODE:
                raise ConfigurationError(f"A code has 1 to {documents.LONGEST_CODE} characters, not {code[:80]!r}.")
        rows = await self._rows(documents.announce(project_id, list(unique.values())), conn)
        return sum(new for _, new in rows)

    async def remove_document(self, id: int, *, conn: object = None) -> None:
        """Take a document out of its project; executions that have it keep it."""
        if not await self._rows(documents.archive(id), conn):
            raise NotFound(f"There is no document {id}.")

    async def add_document(
        self, project_id: int, filename: str, content: bytes | AsyncIterable[bytes], *, source: str = "upload"
    ) -> Added:
        """Keep a file as a document of the project; raises FileRefused when it is none that we read."""
        pieces = pieces_of(content) if isinstance(content, bytes) else content
        return await Intaking(self.app).add(project_id, filename, pieces, source=source)

    async def add_upload(
        self, project_id: int, filename: str, content: bytes | AsyncIterable[bytes], into: Intake | None = None
    ) -> Intake:
        """Keep a file, or every file of a ZIP, and say what became of each."""
        into = into if into is not None else Intake()
        pieces = pieces_of(content) if isinstance(content, bytes) else content
        await Intaking(self.app).receive(project_id, filename, pieces, into)
        return into

    async def add_folder(
        self, project_id: int, folder: Path, *, told: Told | None = None, entry: Entry | None = None
    ) -> Intake:
        """Keep every file under a folder; what the project has already is told as known. Each document that is new
        commits together with its *entry* in the audit.
        """
        await self.project(project_id)
        return await Intaking(self.app).folder(project_id, Path(folder), told=told, entry=entry)


def _named(name: str, what: str) -> str:
    if not name.strip() or len(name) > 200 or unstorable_mark(name):  # noqa: PLR2004 - as long as the name of a batch
        raise ConfigurationError(f"A {what} has a name of 1 to 200 characters, not {name[:80]!r}.")
    return name.strip()


def _noted(description: str | None) -> None:
    if description is not None and len(description) > _LONGEST_NOTE:
        raise ConfigurationError(
            f"A description has at most {_LONGEST_NOTE:,} characters, and this one has {len(description):,}."
        )


def _version(content: str) -> str:
    if len(content) < 10 or unstorable_mark(content):  # noqa: PLR2004 - less says nothing
        raise ConfigurationError("A prompt has a text of 10 characters or more.", next="Say what to look for.")
    labels.parsed(content)
    return hashlib.sha256(content.encode()).hexdigest()
