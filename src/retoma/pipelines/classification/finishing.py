"""The last step of an execution: the batch judges its documents by each other.

Every document has a result of its own by then, and people have seen it. What the batch makes of them is decided once
and written down with the checkpoint that says so; then it is applied in pieces, each with its own checkpoint. A worker
that is killed in between leaves no piece half applied, and the next one applies the pieces that are left.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from retoma.app.fetch import fetch
from retoma.model.endings import Reject
from retoma.model.last_step import BatchEnd
from retoma.model.retry import Retry
from retoma.pipelines.classification import findings
from retoma.pipelines.classification.labels import LOCAL, from_json
from retoma.pipelines.classification.refine_again import relearn, wish_of
from retoma.providers import Classifier, Label, Placing
from retoma.run.pipeline import pipeline
from retoma.run.run import Run

if TYPE_CHECKING:
    from retoma.pipelines.classification.judging import Judgement, Sheaf

PIECE = 200
"""Results that change in one transaction."""

_PAGE = 1000
_PLANNED = 500
_READ = 2000
"""Characters of a document that are read for the words which describe its group."""
_LABELS_SECONDS = 300.0

Connection = psycopg.AsyncConnection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What was decided; the changes themselves are in their table."""

    finding: int
    outcome: str
    documents: int
    changes: int
    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refined:
    """What the last step gives back."""

    outcome: str
    documents: int
    changed: int
    others: int


@pipeline(
    "classification-batch",
    internal=True,
    queue="classification",
    retry=Retry(attempts=3, wait=5.0, factor=2.0),
    timeout=3600.0,
)
async def refine_batch(end: BatchEnd, run: Run, *, classifier: Classifier) -> Refined:
    """Judge the documents of a batch by each other and write what changes, once."""

    async def judge(connection: Connection) -> Judged:
        return await _judged(connection, end.batch_id, run.job, run.configuration, classifier)

    judged = await run.transact("judge", judge)
    after = piece = applied = 0
    while after >= 0:
        after, changed = await run.transact(f"apply/{piece}", _applied, judged.finding, after)
        applied, piece = applied + changed, piece + 1
    if judged.outcome not in ("off", "no_vectors"):
        # What people taught the project before counts in this batch, too.
        wish = await run.transact("taught", wish_of, end.batch_id, run.configuration["labels"])
        if wish is not None:
            applied += (await relearn(wish, run)).changed
    return Refined(outcome=judged.outcome, documents=judged.documents, changed=applied, others=judged.others)


async def _judged(
    connection: Connection, batch_id: int, job: int, how: dict[str, Any], classifier: Classifier
) -> Judged:
    """What changes, written down and not yet applied."""
    outcome = None
    if not how.get("refine", True) or how.get("model") != LOCAL:
        outcome = "off"
    elif not isinstance(classifier, Placing):
        outcome = "no_vectors"
    if outcome is not None:
        return await _nothing(connection, batch_id, job, outcome, 0)
    assert isinstance(classifier, Placing)
    # numpy is needed by whoever judges, and by nobody who only knows the name of this pipeline.
    from retoma.pipelines.classification.judging import Sheaf  # noqa: PLC0415

    labels = from_json(how["labels"])
    sheaf = Sheaf(labels)
    after = ("", 0)
    while page := await fetch(connection, findings.material(batch_id, after=after, limit=_PAGE)):
        sheaf.take(page, classifier.space)
        after = (page[-1].sha256, page[-1].id)
    if not sheaf.found and sheaf.left_out:
        return await _nothing(connection, batch_id, job, "no_vectors", sheaf.left_out)
    texts = await _label_vectors(classifier, labels)
    found = await asyncio.to_thread(sheaf.judged, texts)
    return await _written(connection, batch_id, job, sheaf, found)


async def _nothing(connection: Connection, batch_id: int, job: int, outcome: str, documents: int) -> Judged:
    rows = await fetch(connection, findings.find(batch_id, job, outcome=outcome, documents=documents))
    return Judged(finding=_one(rows), outcome=outcome, documents=documents, changes=0, others=0)


async def _label_vectors(classifier: Placing, labels: tuple[Label, ...]) -> list[Any]:
    """For each label the vectors of its texts: its name, and its description and cues when it has them."""
    import numpy as np  # noqa: PLC0415 - as above

    made = []
    for label in labels:
        described = label.description if label.description != label.name else ""
        texts = [each for each in (label.name, described, *label.cues) if any(map(str.isalnum, each))]
        made.append(np.asarray(await classifier.place(texts, timeout=_LABELS_SECONDS), dtype=np.float32))
    return made


async def _written(connection: Connection, batch_id: int, job: int, sheaf: Sheaf, found: Judgement) -> Judged:
    refinement, changes = found.refinement, found.changes
    moved = [each for each in changes if each.before["category"] != each.after["category"]
             or each.before["subcategory"] != each.after["subcategory"]]  # fmt: skip
    others = sum(len(members) for members, _ in found.groups)
    rows = await fetch(
        connection,
        findings.find(
            batch_id,
            job,
            outcome=str(refinement.outcome),
            documents=len(sheaf.found),
            changed=len(moved),
            others=others,
            rounds=refinement.rounds,
            groups=await _groups(connection, sheaf, found),
            unused=found.unused,
        ),
    )
    finding = _one(rows)
    for start in range(0, len(changes), _PLANNED):
        await fetch(connection, findings.plan(finding, changes[start : start + _PLANNED]))
    return Judged(
        finding=finding,
        outcome=str(refinement.outcome),
        documents=len(sheaf.found),
        changes=len(changes),
        others=others,
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


async def _applied(connection: Connection, finding: int, after: int) -> tuple[int, int]:
    """Apply the next changes: where to go on, or -1 when these were the last, and how many results are others now."""
    rows = await fetch(connection, findings.apply(finding, after=after, limit=PIECE))
    return rows[-1][0] if len(rows) == PIECE else -1, sum(applied for _, applied in rows)


def _one(rows: list[int]) -> int:
    if not rows:
        raise Reject("execution_gone: the execution of this batch was removed; nothing is left to judge.")
    return rows[0]
