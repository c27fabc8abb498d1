"""What people teach a project: a decision about a document is kept as an example, and executions are refined by it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from retoma.errors import BatchConflict, ConfigurationError, Conflict, NotFound
from retoma.model.batch import BatchState
from retoma.model.ids import BatchId
from retoma.pipelines.classification import documents, examples, executions, labels, refinements, reviews
from retoma.pipelines.classification.catalogue import Catalogue
from retoma.pipelines.classification.examples import Example, LabelCount
from retoma.pipelines.classification.finishing import refine_execution
from retoma.pipelines.classification.labels import LOCAL, SUB
from retoma.pipelines.classification.model import Execution, ProjectDocument
from retoma.pipelines.classification.refinement import Wish
from retoma.pipelines.classification.refinements import Refinement
from retoma.pipelines.classification.taught_file import Problem, Said, read_lesson
from retoma.pipelines.files.tables import plain

_LONGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Teaching:
    """What became of many rows: each taught something, said what was known, or has a problem."""

    taught: int = 0
    known: int = 0
    results: int = 0
    """How many results were corrected or confirmed by it."""
    problems: list[Problem] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    encoding: str | None = None

    @property
    def seen(self) -> int:
        """How many rows there were."""
        return self.taught + self.known + len(self.problems)


class Lessons(Catalogue):
    """What can be taught, on an open app."""

    async def teach(
        self, project_id: int, said: Sequence[Said], *, by: str, source: str = "api", conn: object = None
    ) -> Teaching:
        """Keep what *said* of documents as examples of the project. The newest result of each document becomes what
        was said, and no machine changes it any more. A row that cannot be taken is told, and the others are.
        """
        async with self._within(conn) as connection:
            await self.project(project_id, hold=True, conn=connection)
            known = await self._labels(project_id, connection)
            found = await self._documents(project_id, connection)
            given, problems = _understood(said, found, known)
            ids = {document: label for document, (label, _) in given.items()}
            before = {each.document_id for each in await self._rows(examples.known(list(ids)), connection)}
            new = {id: label for id, label in ids.items() if id not in before}
            made = await self._rows(examples.teach(project_id, new, by=by, source=source), connection) if new else []
            done = await self._rows(examples.apply([each.id for each in made]), connection) if made else []
            # Also those whom somebody decided at the desk since: whoever came first is right.
            rest = [id for id in ids if id not in {each.document_id for each in made}]
            standing = await self._rows(examples.known(rest), connection)
        disputed = [
            _disputed(given[each.document_id][1], each) for each in standing if each.label != ids[each.document_id]
        ]
        told = sorted([*problems, *disputed], key=lambda each: each.line)
        return Teaching(taught=len(made), known=len(said) - len(made) - len(told), results=len(done), problems=told)

    async def teach_file(self, project_id: int, content: bytes, *, by: str, conn: object = None) -> Teaching:
        """The same from a CSV file with a column of documents and one of labels."""
        lesson = read_lesson(content)
        done = await self.teach(project_id, lesson.said, by=by, source="file", conn=conn)
        told = sorted([*lesson.problems, *done.problems], key=lambda each: each.line)
        return Teaching(
            taught=done.taught,
            known=done.known,
            results=done.results,
            problems=told,
            columns=lesson.columns,
            encoding=lesson.encoding,
        )

    async def teach_one(
        self, document_id: int, label: str, *, by: str, source: str = "page", conn: object = None
    ) -> Example:
        """Say what one document is; Conflict when somebody said something else before."""
        async with self._within(conn) as connection:
            document = await self.document(document_id, conn=connection)
            row = Said(line=1, document=document.code, label=label)
            done = await self.teach(document.project_id, [row], by=by, source=source, conn=connection)
            if done.problems:
                raise Conflict(done.problems[0].message, next="Undo that first, or choose another label.")
            found = await self._rows(examples.page(document_id=document_id), connection)
        if not found:
            raise Conflict(f"Document {document.code} was decided before, without an example.")
        return found[0]

    async def forget(self, id: int, *, by: str, conn: object = None) -> Example:
        """Take an example back: its document's result is what had been found. One from the review desk is undone there,
        by whoever decided.
        """
        async with self._within(conn) as connection:
            example = await self.example(id, conn=connection)
            if example.source == "review":
                raise Conflict(
                    f"Example {id} is a decision of {example.decided_by} at the review desk.",
                    next="Whoever decided undoes it there: retoma review undo.",
                )
            gone = await self._rows(examples.withdraw(id=id, by=by), connection)
            if not gone:
                raise Conflict(f"Example {id} was taken back already.")
            if gone[0].result_id is not None:
                await self._rows(reviews.undo(gone[0].result_id), connection)
        return example

    async def example(self, id: int, *, conn: object = None) -> Example:
        """An example, also one that was taken back."""
        rows = await self._rows(examples.page(id=id, all=True), conn)
        if not rows:
            raise NotFound(f"There is no example {id}.")
        return rows[0]

    async def examples(self, project_id: int, *, after: int = 0, limit: int = 1000) -> list[Example]:
        """The examples of a project that count, in order, *after* an id for the next page."""
        await self.project(project_id)
        return await self._rows(examples.page(project_id=project_id, after=after, limit=limit))

    async def example_of(self, document_id: int) -> Example | None:
        """What somebody taught about a document, if anybody did."""
        rows = await self._rows(examples.page(document_id=document_id))
        return rows[0] if rows else None

    async def example_counts(self, project_id: int) -> list[LabelCount]:
        """How many examples each label has, and of how many of them it had been found before."""
        return await self._rows(examples.counts(project_id))

    # — refining —

    async def refine(self, id: BatchId, *, by: str, conn: object = None) -> tuple[Refinement, bool]:
        """Go through an execution again with what was taught, in the background; whether this began it. One that is at
        work already is the answer. What a person decided stays.
        """
        async with self._within(conn) as connection:
            await self.app.batches.hold(id, conn=connection)
            found = await self._rows(executions.page(id=id, archived=True), connection)
            if not found:
                raise NotFound(f"There is no execution {id}.")
            if at_work := await self._rows(refinements.page(batch_id=id, open=True, limit=1), connection):
                return at_work[0], False
            [mixed] = await self._rows(executions.mixed(id), connection)
            wish = _wish(found[0], mixed=mixed)
            job = await self.app.enqueue(refine_execution, wish, conn=connection)
            (made,) = await self._rows(refinements.begin(id, wish.project_id, job.id, by=by), connection)
            return (await self._rows(refinements.page(id=made), connection))[0], True

    async def refinements(self, id: BatchId, *, limit: int = 20) -> list[Refinement]:
        """How often an execution was gone through again, and what came of it, the newest first."""
        return await self._rows(refinements.page(batch_id=id, limit=limit))

    async def refinement(self, id: int) -> Refinement:
        """A refinement as it stands."""
        rows = await self._rows(refinements.page(id=id))
        if not rows:
            raise NotFound(f"There is no refinement {id}.")
        return rows[0]

    async def labels_of(self, project_id: int, *, conn: object = None) -> list[str]:
        """The labels that the project's prompt names; none when it leaves them to a model."""
        return await self._labels(project_id, conn)

    async def _labels(self, project_id: int, conn: object) -> list[str]:
        project = await self.project(project_id, conn=conn)
        prompt = await (
            self.default_prompt(conn=conn) if project.prompt_id is None else self.prompt(project.prompt_id, conn=conn)
        )
        return [each.name for each in labels.parsed(prompt.content)]

    async def _documents(self, project_id: int, conn: object) -> list[ProjectDocument]:
        found: list[ProjectDocument] = []
        while page := await self._rows(
            documents.page(project_id, after=found[-1].id if found else 0, limit=5000), conn
        ):
            found += page
        return found


def _wish(execution: Execution, *, mixed: bool) -> Wish:
    """What a refinement of *execution* needs; refused while it is at work, and where there is nothing to compare."""
    if execution.state in (BatchState.QUEUED, BatchState.RUNNING):
        raise BatchConflict(
            f"Execution {execution.id} is at work.", code="conflict", next="Refine it when its documents are done."
        )
    how = execution.configuration
    if how["model"] != LOCAL:
        raise Conflict(
            f"Execution {execution.id} asked the model {how['model']}, whose results are not compared with each other.",
            next="What people decided stays. Run the project with the model 'local' to spread it.",
        )
    if mixed:
        raise Conflict(
            f"Execution {execution.id} was re-planned with other categories, and its results are not compared.",
            next="What people decided stays.",
        )
    return Wish(batch_id=execution.id, project_id=execution.project_id, labels=how["labels"])


# — what rows mean —

Understood = tuple[dict[int, tuple[str, Said]], list[Problem]]


def _understood(said: Sequence[Said], found: Sequence[ProjectDocument], known: Sequence[str]) -> Understood:
    """A label and its row for each document that is named, and the rows that are not understood."""
    by_name, by_label = _by_name(found), _by_label(known)
    rows: dict[int, list[tuple[str, Said]]] = defaultdict(list)
    problems: list[Problem] = []
    for each in said:
        try:
            rows[_document(each.document, by_name)].append((_label(each.label, by_label, known), each))
        except ConfigurationError as error:
            reason = "label_unknown" if "label" in str(error) else "document_unknown"
            problems.append(_told(each, reason, str(error)))
    given = {}
    for document, them in rows.items():
        if len({label for label, _ in them}) == 1:
            given[document] = them[0]
        else:
            lines = ", ".join(str(row.line) for _, row in them)
            told = f"The rows {lines} say different things of the same document."
            problems += [_told(row, "contradiction", told) for _, row in them]
    return given, problems


def _told(row: Said, reason: str, message: str) -> Problem:
    return Problem(line=row.line, reason=reason, message=message, text=f"{row.document} | {row.label}"[:200])


def _disputed(row: Said, before: examples.Known) -> Problem:
    told = f"{before.decided_by} said that {row.document} is {before.label!r}, and a person's word is not changed."
    return _told(row, "decided_before", told)


def _by_name(found: Sequence[ProjectDocument]) -> list[Mapping[str, set[int]]]:
    """What documents are called, the most exact names first."""
    exact: dict[str, set[int]] = defaultdict(set)
    loose: dict[str, set[int]] = defaultdict(set)
    stems: dict[str, set[int]] = defaultdict(set)
    for each in found:
        for name in filter(None, (each.code, each.filename)):
            exact[name].add(each.id)
            loose[_last(name)].add(each.id)
            stems[PurePosixPath(_last(name)).stem].add(each.id)
    return [exact, loose, stems]


def _last(name: str) -> str:
    """The last part of a path, in small letters."""
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2].casefold()


def _document(name: str, by_name: Sequence[Mapping[str, set[int]]]) -> int:
    for known, called in zip(by_name, (name, _last(name), PurePosixPath(_last(name)).stem), strict=True):
        if found := known.get(called):
            if len(found) > 1:
                raise ConfigurationError(f"{len(found)} documents of the project are called {name!r}.")
            return next(iter(found))
    raise ConfigurationError(f"The project has no document called {name!r}.")


def _by_label(known: Sequence[str]) -> dict[str, str]:
    """Labels by what people may write; what would fit two is left out."""
    whole = {plain(name): name for name in known}
    parts: dict[str, set[str]] = defaultdict(set)
    for name in known:
        parts[plain(name.rpartition(SUB)[2])].add(name)
    return {**{part: next(iter(names)) for part, names in parts.items() if len(names) == 1}, **whole}


def _label(said: str, by_label: Mapping[str, str], known: Sequence[str]) -> str:
    label = SUB.join(part.strip() for part in said.split(">"))
    if found := by_label.get(plain(label)):
        return found
    if known:
        shown = ", ".join(known[:10])
        raise ConfigurationError(f"The project has no label {said[:80]!r}; its labels are {shown}.")
    if not label.strip() or len(label) > _LONGEST:
        raise ConfigurationError(f"A label has 1 to {_LONGEST} characters.")
    return label
