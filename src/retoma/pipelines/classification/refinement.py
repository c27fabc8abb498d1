"""The one way in which an execution is refined: as its last step, and by button after corrections.

Every document has a result of its own by then, and people have seen it. What the documents and the examples of the
project say together is decided once and written down, each change with what it was, what it becomes and why, in the
transaction of the checkpoint that says so. Then it is applied in pieces, each with a checkpoint. A worker that is
killed in between leaves no piece half applied, and the next one applies the pieces that are left.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
import psycopg

from retoma.app.fetch import fetch
from retoma.model.endings import Reject
from retoma.pipelines.classification import examples, findings, refinements
from retoma.pipelines.classification.labels import from_json
from retoma.providers import Classifier, Label, Placing
from retoma.run.run import Run

if TYPE_CHECKING:
    from retoma.pipelines.classification.judging import Judgement, Sheaf

PIECE = 200
"""Results that change in one transaction."""
PLACED = 50
"""Texts whose vectors are made together: what a killed worker does again, at most."""

_PAGE = 1000
_PLANNED = 500
_READ = 2000
"""Characters of a document that are read for the words which describe its group."""
_SECONDS = 300.0

Connection = psycopg.AsyncConnection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which execution, and the labels it was made with."""

    batch_id: int
    project_id: int
    labels: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What was decided; the changes themselves are in their table."""

    finding: int
    outcome: str
    documents: int
    changes: int
    others: int
    examples: int = 0
    """How many examples the project has."""
    taught: list[int] = field(default_factory=list)
    """The examples whose documents are in this execution, and whose results nobody decided yet."""
    gain: str | None = None
    """What the examples are worth, as its table keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refined:
    """What came of it."""

    outcome: str
    documents: int
    changed: int
    """Results that have another label or another confidence."""
    others: int
    examples: int = 0


async def refined(wish: Wish, run: Run, classifier: Classifier, *, asked: bool) -> Refined:
    """Judge the documents of an execution by each other and by the examples of its project, and write what changes,
    once. What it was worth is kept when somebody *asked* for it, or when there are examples.
    """
    if not isinstance(classifier, Placing):
        return await set_aside(wish.batch_id, run, "no_vectors")
    placing = classifier

    async def place(connection: Connection, after: int) -> int:
        return await _placed(connection, wish, placing, after)

    async def judge(connection: Connection) -> Judged:
        return await _judged(connection, wish, run.job, placing)

    after = piece = 0
    while (after := await run.transact(f"vectors/{piece}", place, after)) >= 0:
        piece += 1
    judged = await run.transact("judge", judge)
    after = piece = applied = 0
    while after >= 0:
        after, changed = await run.transact(f"apply/{piece}", _applied, judged.finding, after)
        applied, piece = applied + changed, piece + 1
    await run.transact("finish", _finished, wish, judged, run.job, asked=asked)
    return Refined(
        outcome=judged.outcome,
        documents=judged.documents,
        changed=applied,
        others=judged.others,
        examples=judged.examples,
    )


async def set_aside(batch_id: int, run: Run, outcome: str) -> Refined:
    """Every result stays as it is, and the *outcome* says why."""

    async def note(connection: Connection) -> int:
        return _one(await fetch(connection, findings.find(batch_id, run.job, outcome=outcome, documents=0)))

    await run.transact("judge", note)
    return Refined(outcome=outcome, documents=0, changed=0, others=0)


# — vectors —


async def _placed(connection: Connection, wish: Wish, classifier: Placing, after: int) -> int:
    """Make the next vectors that are missing, of results and then of examples from elsewhere; where to go on, or -1
    when that was all. A document has its vector since it was classified, unless that was by an older program.
    """
    # numpy is needed by whoever refines, and by nobody who only has the names of these pipelines.
    from retoma.pipelines.classification.judging import kept_whole, packed  # noqa: PLC0415

    texts = await fetch(connection, findings.unplaced(wish.batch_id, classifier.space, after=after, limit=PLACED))
    if texts:
        rows = await classifier.place([text for _, text in texts], timeout=_SECONDS)
        places = [(id, packed(row)) for (id, _), row in zip(texts, rows, strict=True)]
        await fetch(connection, findings.put(classifier.space, places))
        return texts[-1][0]
    taught = await fetch(connection, examples.unplaced(wish.project_id, wish.batch_id, classifier.space, limit=PLACED))
    if taught:
        rows = await classifier.place([text for _, text in taught], timeout=_SECONDS)
        made = {sha: kept_whole(row) for (sha, _), row in zip(taught, rows, strict=True)}
        await fetch(connection, refinements.keep_vectors(classifier.space, made))
    return after if len(taught) == PLACED else -1


async def _label_vectors(classifier: Placing, labels: tuple[Label, ...]) -> list[Any]:
    """For each label the vectors of its texts: its name, and its description and cues when it has them."""
    import numpy as np  # noqa: PLC0415 - as above

    made = []
    for label in labels:
        described = label.description if label.description != label.name else ""
        texts = [each for each in (label.name, described, *label.cues) if any(map(str.isalnum, each))]
        made.append(np.asarray(await classifier.place(texts, timeout=_SECONDS), dtype=np.float32))
    return made


# — judging —


async def _judged(connection: Connection, wish: Wish, job: int, classifier: Placing) -> Judged:
    """What changes, written down and not yet applied."""
    from retoma.pipelines.classification.judging import Sheaf  # noqa: PLC0415 - as above

    labels = from_json(wish.labels)
    sheaf = Sheaf(labels)
    after = ("", 0)
    while page := await fetch(connection, findings.material(wish.batch_id, after=after, limit=_PAGE)):
        sheaf.take(page, classifier.space)
        after = (page[-1].sha256, page[-1].id)
    sheaf.learn_from(await fetch(connection, examples.lessons(wish.project_id, wish.batch_id, classifier.space)))
    texts = await _label_vectors(classifier, labels)
    found = await asyncio.to_thread(sheaf.judged, texts)
    return await _written(connection, wish, job, sheaf, found)


async def _written(connection: Connection, wish: Wish, job: int, sheaf: Sheaf, found: Judgement) -> Judged:
    refinement, changes = found.refinement, found.changes
    others = sum(len(members) for members, _ in found.groups)
    outcome = str(refinement.outcome)
    finding = _one(
        await fetch(
            connection,
            findings.find(
                wish.batch_id,
                job,
                outcome=outcome,
                documents=len(sheaf.found),
                changed=sum(each.moved for each in changes),
                others=others,
                rounds=refinement.rounds,
                groups=await _groups(connection, sheaf, found),
                unused=found.unused,
            ),
        )
    )
    for start in range(0, len(changes), _PLANNED):
        await fetch(connection, findings.plan(finding, changes[start : start + _PLANNED]))
    await fetch(connection, findings.line_up(wish.batch_id, found.turns))
    return Judged(
        finding=finding,
        outcome=outcome,
        documents=len(sheaf.found),
        changes=len(changes),
        others=others,
        examples=sheaf.examples,
        taught=sheaf.taught,
        gain=orjson.dumps(found.gain).decode(),
    )


async def _groups(connection: Connection, sheaf: Sheaf, found: Judgement) -> list[dict[str, Any]]:
    """The groups that fit no label, each with the words that tell it from the rest of the batch."""
    from retoma.pipelines.classification.describing import Wording  # noqa: PLC0415 - as above

    if not found.groups:
        return []
    own = {id: number for number, (members, _) in enumerate(found.groups) for id in members}
    wording = Wording(len(found.groups))
    ids = [each.id for each in sheaf.found]
    for start in range(0, len(ids), _PAGE):
        for id, text in await fetch(connection, findings.texts(ids[start : start + _PAGE], length=_READ)):
            wording.read(text, own.get(id))
    return [
        {"documents": len(members), "words": wording.words(number), "examples": central}
        for number, (members, central) in enumerate(found.groups)
    ]


# — applying —


async def _applied(connection: Connection, finding: int, after: int) -> tuple[int, int]:
    """Apply the next changes: where to go on, or -1 when these were the last, and how many results are others now."""
    rows = await fetch(connection, findings.apply(finding, after=after, limit=PIECE))
    return rows[-1][0] if len(rows) == PIECE else -1, sum(applied for _, applied in rows)


async def _finished(connection: Connection, wish: Wish, judged: Judged, job: int, *, asked: bool) -> int:
    """What people taught elsewhere becomes the result here, the desk shows what is proposed now, and what it was worth
    is kept.
    """
    await fetch(connection, examples.apply(judged.taught, batch_id=wish.batch_id))
    told = await fetch(connection, refinements.tell_desk(wish.batch_id))
    if asked or judged.examples:
        await fetch(connection, refinements.finish(wish.batch_id, wish.project_id, job, judged.finding,
                                                   examples=judged.examples, total=judged.documents,
                                                   gain=judged.gain))  # fmt: skip
    return len(told)


def _one(rows: list[int]) -> int:
    if not rows:
        raise Reject("execution_gone: the execution of this batch was removed; nothing is left to judge.")
    return rows[0]
