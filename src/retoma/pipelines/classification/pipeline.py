"""One document: read, cut, classified, and its result saved. All it is told is in its input and in the configuration
of its batch; what has become of the project meanwhile does not matter.
"""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import orjson
import psycopg

from retoma.app.fetch import fetch
from retoma.errors import NotFound
from retoma.model.endings import Reject, Skip
from retoma.model.retry import Retry
from retoma.pipelines.classification import excerpt, findings, results
from retoma.pipelines.classification.answer import Said, asked, shape_of
from retoma.pipelines.classification.finishing import refine_batch, refine_execution
from retoma.pipelines.classification.labels import LOCAL, SUB, from_json
from retoma.pipelines.files.ingest import hash_of, local_file
from retoma.providers import (
    BlobStore,
    Chat,
    Classifier,
    Extraction,
    Extractor,
    Placing,
    ProviderError,
    RequestRejected,
    Verdict,
)
from retoma.run.pipeline import Pipeline, pipeline
from retoma.run.run import Run
from retoma.values.escaping import spoken
from retoma.values.text import storable

HIDDEN = "caracteres_invisiveis"
"""Under which an answer says how many characters were left out because nobody sees them."""
_READ_SECONDS = 90.0
_ASK_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A document as its job has it."""

    document_id: int
    code: str
    filename: str | None
    kind: str | None
    sha256: str | None
    blob: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Of which kind a text is, by whoever was asked."""

    category: str
    subcategory: str | None
    confidence: str
    justification: str
    score: float | None = None
    margin: float | None = None
    quote: str | None = None
    case_number: str | None = None
    answer: dict[str, Any]
    """All that was said, as people may export it."""
    place: str | None = None
    """Where it lies among others: the name of the space, a colon, and the vector as it is kept, in base 64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a job gives back."""

    category: str
    subcategory: str | None
    confidence: str


@pipeline(
    "classification",
    internal=True,
    retry=Retry(attempts=3, wait=5.0, factor=2.0),
    timeout=120.0,
    stall_seconds=300.0,
    finish=refine_batch,
)
async def classify_document(
    paper: Paper,
    run: Run,
    *,
    extractor: Extractor,
    classifier: Classifier,
    blobs: BlobStore,
    chat: Chat | None = None,
) -> Outcome:
    """Classify one document and save its result, once."""
    how = run.configuration
    before = await run.transact("known", _known, run.job, paper, how["hash"], reuse=how.get("reuse", True))
    if before is not None:
        raise Skip(f"classified before, in execution {before}")
    extraction = await _read(paper, run, extractor, blobs)
    text, hidden = spoken(extraction.text.strip())
    if len(text) < excerpt.SHORTEST:
        raise Reject(
            f"text_too_short: {paper.filename} has {len(text)} characters of text, and {excerpt.SHORTEST} are needed. "
            "If a person can read more in it, print it to a PDF and send that."
        )
    part = excerpt.cut(text, mode=how["mode"], position=how["position"], tokens=how["chunk_tokens"])
    found = await judged(part, how, run, hidden=hidden, classifier=classifier, chat=chat)
    told = asdict(found)
    place = told.pop("place")
    saved = {
        "settings_hash": how["hash"],
        **told,
        "answer": orjson.dumps(found.answer).decode(),
        "text_source": excerpt.source_of(extraction, paper.kind or ""),
        "text_tokens": excerpt.tokens_of(text),
        "tokens": excerpt.tokens_of(part),
        "chunk_used": part[: excerpt.KEPT],
    }
    await run.transact("save", _saved, run.job, saved, place)
    return Outcome(category=found.category, subcategory=found.subcategory, confidence=found.confidence)


async def _known(
    connection: psycopg.AsyncConnection[Any], job: int, paper: Paper, settings_hash: str, *, reuse: bool
) -> int | None:
    """The execution whose result was taken over, if there was one; a job whose input is not its row's is refused."""
    own = results.given(job, paper.document_id, sha=paper.sha256, blob=paper.blob)
    if not await fetch(connection, own):
        raise Reject(
            f"input_mismatch: job {job} names another document than the execution has for it, or one that was removed. "
            "Nothing was read. Start the execution again."
        )
    if not reuse:
        return None
    rows = await fetch(connection, results.copy_known(job, settings_hash))
    if rows:
        await fetch(connection, findings.copy_place(job))
    return rows[0] if rows else None


async def _saved(
    connection: psycopg.AsyncConnection[Any], job: int, saved: dict[str, Any], place: str | None = None
) -> int:
    clean = {name: storable(value) if isinstance(value, str) else value for name, value in saved.items()}
    rows = await fetch(connection, results.save(job, clean))
    if not rows:
        raise Reject("execution_gone: the execution of this document was removed; nothing is left to save it in.")
    if place is not None:
        space, _, vector = place.rpartition(":")
        await fetch(connection, findings.place(job, space, base64.b64decode(vector)))
    return rows[0]


async def _read(paper: Paper, run: Run, extractor: Extractor, blobs: BlobStore) -> Extraction:
    if paper.blob is None or paper.kind is None or paper.sha256 is None:
        raise Reject(f"document_missing: the file of {paper.code} was never sent. Send it, then try again.")
    try:
        async with local_file(blobs, paper.blob, paper.kind) as file:
            if await hash_of(file) != paper.sha256:
                raise Reject(
                    f"content_changed: the file of {paper.code} is not the one that was received. Find out who changed "
                    "it in the store, and send it again."
                )
            return await _extracted(paper, run, extractor, file)
    except NotFound:
        raise Reject(
            f"document_missing: the file of {paper.code} is not in the store any more. Send it again."
        ) from None


async def _extracted(paper: Paper, run: Run, extractor: Extractor, file: Path) -> Extraction:
    assert paper.kind is not None
    assert paper.sha256 is not None
    try:
        return await run.extract("read", extractor, file, kind=paper.kind, sha256=paper.sha256, timeout=_READ_SECONDS)
    except ProviderError as error:
        code = getattr(error, "code", None)
        if code is None or error.retryable:
            raise
        # People know the document by its name, not by that of our copy; and another attempt would end the same.
        raise Reject(f"{code}: {error}".replace(file.name, paper.filename or paper.code)) from error


class Asking(Protocol):
    """Where a model is asked and a step is done: a run, or somebody who keeps nothing."""

    async def ask(self, name: str, chat: Chat, prompt: Any, /, *, into: Any, timeout: float) -> Any:
        """A value of *into*."""

    async def step(self, name: str, function: Any, /, *args: Any) -> Any:
        """What *function* gives."""


async def judged(
    part: str, how: dict[str, Any], run: Asking, *, hidden: int, classifier: Classifier, chat: Chat | None
) -> Finding:
    """Of which kind *part* is, by the model that the configuration names. That *hidden* characters, which nobody sees,
    were left out of its document is said with what was found.
    """
    found = await _judged(part, how, run, classifier=classifier, chat=chat)
    return replace(found, answer={**found.answer, HIDDEN: hidden}) if hidden else found


async def _judged(part: str, how: dict[str, Any], run: Asking, *, classifier: Classifier, chat: Chat | None) -> Finding:
    labels = from_json(how["labels"])
    if how["model"] != LOCAL:
        if chat is None:
            raise Reject(
                f"model_unavailable: this execution asks for the model {how['model']}, and this worker has no provider "
                "of language models. Set RETOMA_CHAT and its key, start the worker again, then try again."
            )
        said: Said = await run.ask(
            "classify", chat, asked(how["prompt"], part, how["model"]), into=shape_of(labels), timeout=_ASK_SECONDS
        )
        return _by_model(said)

    async def judge() -> Finding:
        try:
            (verdict,) = await classifier.classify([part], labels, timeout=_ASK_SECONDS)
        except RequestRejected as error:
            raise Reject(f"not_classifiable: {error}") from error
        return _by_likeness(verdict, f"{classifier.provider}:{classifier.model}", _placed(verdict, classifier))

    found: Finding = await run.step("classify", judge)
    return found


def _by_model(said: Said) -> Finding:
    return Finding(
        category=said.categoria,
        subcategory=said.subcategoria,
        confidence=said.confianca,
        justification=said.justificativa_breve,
        case_number=said.numero_processo_cnj,
        answer=said.model_dump(),
    )


def _placed(verdict: Verdict, classifier: Classifier) -> str | None:
    if verdict.vector is None or not isinstance(classifier, Placing):
        return None
    from retoma.pipelines.classification.judging import packed  # noqa: PLC0415 - numpy, which a language model needs not

    return f"{classifier.space}:{base64.b64encode(packed(verdict.vector)).decode()}"


def _by_likeness(verdict: Verdict, model: str, place: str | None) -> Finding:
    category, _, subcategory = verdict.label.partition(SUB)
    answer = {
        "categoria": category,
        "subcategoria": subcategory or None,
        "confianca": verdict.confidence,
        "justificativa_breve": verdict.justification,
        "pontuacao": verdict.score,
        "margem": verdict.margin,
        "trecho": verdict.quote,
        "pontuacoes": dict(verdict.scores),
        "modelo": model,
    }
    return Finding(
        category=category,
        subcategory=subcategory or None,
        confidence=verdict.confidence,
        justification=verdict.justification,
        score=verdict.score,
        margin=verdict.margin,
        quote=verdict.quote,
        answer=answer,
        place=place,
    )


PIPELINES: tuple[Pipeline[Any, Any], ...] = (classify_document, refine_batch, refine_execution)
