"""How an execution begins: the settings of a project are frozen, and each of its documents gets a job and a row."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from retoma.app.fetch import fetch
from retoma.app.retoma import Retoma
from retoma.errors import BatchConflict, ConfigurationError, Conflict, NotFound
from retoma.model.batch import Batch
from retoma.pipelines.classification import documents, executions, labels, projects, results
from retoma.pipelines.classification.labels import LOCAL
from retoma.pipelines.classification.model import Project, ProjectDocument, SavedPrompt
from retoma.pipelines.classification.pipeline import Paper, classify_document
from retoma.providers import Chat, Classifier
from retoma.values.fingerprints import fingerprint

ROUTE = "/classificador/"

_USUAL: dict[str, Any] = {
    "description": None,
    "prompt_id": None,
    "model": None,
    "mode": "chunk",
    "position": "end",
    "chunk_tokens": 512,
    "at_once": 3,
    "max_resumes": 3,
    "max_retries": 2,
}
_RANGES = {"chunk_tokens": (100, 4000), "at_once": (1, 10), "max_resumes": (0, 1000), "max_retries": (0, 100)}
_CHOICES = {"mode": ("chunk", "whole"), "position": ("end", "start")}


def checked(given: dict[str, Any], *, whole: bool) -> dict[str, Any]:
    """The settings of a project, within their limits; *whole* fills in what was not said."""
    unknown = set(given) - set(projects.FIELDS)
    if unknown:
        raise ConfigurationError(f"A project has no {', '.join(sorted(unknown))}.")
    values = ({**_USUAL, **{name: value for name, value in given.items() if value is not None}}) if whole else given
    for name, (least, most) in _RANGES.items():
        if values.get(name) is not None and not least <= values[name] <= most:
            raise ConfigurationError(f"{name} is from {least} to {most}, and was {values[name]}.")
    for name, choices in _CHOICES.items():
        if values.get(name) is not None and values[name] not in choices:
            raise ConfigurationError(f"{name} is {' or '.join(choices)}, and was {values[name]!r}.")
    return values


def models(app: Retoma) -> list[str]:
    """The models that can be asked for here, the usual one first."""
    return [*([app.provider(Chat).model] if app.provides(Chat) else []), LOCAL]


def usual_mode(app: Retoma, model: str | None, *, part: bool) -> str:
    """How much is read of a document when nobody says it: all by this machine, which is free; a part by a model, or
    when something was said of the *part*.
    """
    return "whole" if not part and (model or models(app)[0]) == LOCAL else "chunk"


def _asked_by(app: Retoma, model: str) -> str:
    """Who answers for *model*: another classifier finds other things, also under the same name."""
    kind = Classifier if model == LOCAL else Chat
    who = app.provider(kind) if app.provides(kind) else None
    return f"{getattr(who, 'provider', '')}:{getattr(who, 'model', '') if model == LOCAL else model}"


def configuration(
    app: Retoma, project: Project, prompt: SavedPrompt, *, reuse: bool = True, refine: bool = True
) -> dict[str, Any]:
    """What an execution is made with. *hash* is over all that decides what is found in a document."""
    if prompt.archived_at is not None:
        raise Conflict(
            f"The prompt {prompt.name!r} of this project was archived.", next="Give the project another prompt."
        )
    how = frozen(app, prompt.content, model=project.model, mode=project.mode, position=project.position,
                 chunk_tokens=project.chunk_tokens)  # fmt: skip
    return {
        **how,
        "prompt_id": prompt.id,
        "prompt_name": prompt.name,
        "prompt_sha256": prompt.sha256,
        "project_id": project.id,
        "project": project.name,
        "at_once": project.at_once,
        "max_resumes": project.max_resumes,
        "max_retries": project.max_retries,
        "reuse": reuse,
        "refine": refine,
    }


def replanned(app: Retoma, before: dict[str, Any], prompt: SavedPrompt, *, model: str | None) -> dict[str, Any]:
    """What the rest of an execution is made with: another prompt or model, and all else as it was."""
    if prompt.archived_at is not None:
        raise Conflict(f"The prompt {prompt.name!r} was archived.", next="Choose another prompt.")
    how = frozen(app, prompt.content, model=model or before["model"], mode=before["mode"],
                 position=before["position"], chunk_tokens=before["chunk_tokens"])  # fmt: skip
    told = {"prompt_id": prompt.id, "prompt_name": prompt.name, "prompt_sha256": prompt.sha256}
    return {**before, **how, **told}


def frozen(
    app: Retoma, prompt: str, *, model: str | None = None, mode: str | None = None, position: str = "end",
    chunk_tokens: int = 512,
) -> dict[str, Any]:  # fmt: skip
    """What a document is classified with."""
    mode = mode or usual_mode(app, model, part=(position, chunk_tokens) != ("end", 512))
    checked({"mode": mode, "position": position, "chunk_tokens": chunk_tokens}, whole=False)
    chosen = model or models(app)[0]
    found = labels.parsed(prompt)
    if chosen == LOCAL and not found:
        raise ConfigurationError(
            "This prompt names no categories, and without a language model there must be some to choose from.",
            next="Add a line for each to the prompt: '- name: description; word, word'.",
        )
    how = {
        "prompt": prompt,
        "labels": labels.as_json(found),
        "model": chosen,
        "asked": _asked_by(app, chosen),
        "mode": mode,
        "position": position if mode == "chunk" else "end",
        "chunk_tokens": chunk_tokens if mode == "chunk" else 512,
    }
    return {**how, "hash": fingerprint("classification", how)}


async def start(
    app: Retoma,
    project: Project,
    how: dict[str, Any],
    conn: Any,
    *,
    documents: Sequence[int] | None,
    name: str | None,
    correlation_id: str | None,
    budget: Decimal | None = None,
    pilot: int = 0,
) -> Batch:
    """The batch, its jobs, the execution and the rows of its results: all of it in one transaction, or nothing. Who
    calls holds the project.
    """
    chosen = await _chosen(project, conn, documents)
    options: dict[str, Any] = {
        "route": ROUTE,
        "labels": {"project": str(project.id)},
        "configuration": how,
        "max_resumes": project.max_resumes,
        "at_once": project.at_once,
    }
    if correlation_id is not None:
        options["correlation_id"] = correlation_id
    if budget is not None:
        options["budget"] = budget
    batch = await app.batches.open(classify_document, name=name or project.name, conn=conn, **options)
    receipts = await app.batches.fill(
        batch.id,
        classify_document,
        [_paper(each) for each in chosen],
        key=lambda paper: paper.code,
        conn=conn,
        max_retries=project.max_retries,
    )
    await fetch(conn, executions.create(batch.id, project.id, how["hash"]))
    pairs = [(document.id, receipt.id) for document, receipt in zip(chosen, receipts, strict=True)]
    await fetch(conn, results.begin(batch.id, pairs))
    return await app.batches.seal(batch.id, expected=len(chosen), pilot=pilot, conn=conn)


async def _chosen(project: Project, conn: Any, ids: Sequence[int] | None) -> list[ProjectDocument]:
    found: list[ProjectDocument] = []
    while page := await fetch(
        conn, documents.page(project.id, ids=ids, after=found[-1].id if found else 0, limit=5000)
    ):
        found += page
    if ids is not None and (missing := sorted(set(ids) - {each.id for each in found})):
        raise NotFound(f"Project {project.id} has no document {', '.join(map(str, missing[:10]))}.")
    if not found:
        raise BatchConflict(
            f"Project {project.id} ({project.name}) has no documents.", code="batch_empty", next="Send some first."
        )
    return found


def _paper(document: ProjectDocument) -> Paper:
    return Paper(
        document_id=document.id,
        code=document.code,
        filename=document.filename,
        kind=document.kind,
        sha256=document.sha256,
        blob=document.blob,
    )
