"""The page of an execution: watched live, continued, its errors tried again, its results looked through."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import Field
from starlette.responses import RedirectResponse

from retoma.errors import ConfigurationError, NotFound
from retoma.model.ids import BatchId
from retoma.pipelines.classification.http.executions import NAME
from retoma.pipelines.classification.library import Classification
from retoma.pipelines.classification.model import Execution, Result
from retoma.pipelines.classification.pages import view
from retoma.pipelines.classification.pages.context import ROOT, Library, Say, shown, speaker, told_error
from retoma.web.api.schemas.requests import Id, Wanted
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, needs
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import base_of
from retoma.web.pages.render import region_of
from retoma.web.pages.route import PageRoute
from retoma.web.pages.styles import state_styles
from retoma.web.words import phrases
from retoma.web.words.causes import span

router = APIRouter(prefix="/execucoes/{id}", route_class=PageRoute)

MOSAIC = 10_000
"""Documents that the mosaic draws."""
_ROWS = 100
_GROUPS = 50
_LARGEST_FORM = 20_000
_LONGEST_NOTE = 200
_LONGEST_ID = 18
SAID = ("resumed", "no_workers", "already_running", "already_finished", "completed", "retried", "nothing_to_retry",
        "paused", "cancelled", "refining", "taught", "replanned", "already_planned")  # fmt: skip

ENDINGS = frozenset(key.rpartition(".")[2] for key in phrases("en") if key.startswith("classifier.document.ending."))

Number = Annotated[Id, Path()]


class ResultsWanted(Wanted):
    """Which results, and what was just done."""

    categoria: Annotated[str, Field(max_length=200)] = ""
    confianca: Literal["", "alta", "media", "baixa"] = ""
    erros: Literal["", "1"] = ""
    depois: Annotated[int, Field(ge=0, lt=2**63)] = 0
    dito: Annotated[str, Field(max_length=30)] = ""

    @property
    def narrowed(self) -> bool:
        """Whether some documents are left out."""
        return bool(self.categoria or self.confianca or self.erros)


async def _found(id: Number, library: Library, visit: Here) -> Execution:
    visit.see(NAME, f"execution {id}")
    return await library.execution(BatchId(id), conn=visit.conn)


Found = Annotated[Execution, Depends(_found)]


# — looking —


@router.get("")
@needs("read", limited=True)
async def show_execution(
    run: Found, wanted: Annotated[ResultsWanted, Query()], library: Library, request: Request
) -> Response:
    """An execution, live; a region of it alone where one is asked for, and then only what that region shows."""
    say = speaker(request)
    region = region_of(request)
    values: dict[str, Any] = {"run": run, "wanted": wanted, "said": wanted.dito if wanted.dito in SAID else ""}
    for name, gather in _REGIONS.items():
        if region in (None, name) or region not in _REGIONS:
            values |= await gather(library, run, wanted, say)
    return await shown(
        request,
        library,
        "run",
        "lots",
        script_words=("exec.", "classifier.run.", "state.job."),
        told_error=lambda error, reason: told_error(error, reason, say),
        **values,
    )


async def _summary(library: Classification, run: Execution, _: ResultsWanted, say: Say) -> dict[str, Any]:
    pace = await library.app.batches.progress(run.id)
    explained = await library.app.batches.explain(run.id) if view.wants_explanation(run, pace) else None
    groups = await library.app.batches.errors(run.id) if run.state == "failed" and run.failed else []
    return {
        "pace": pace,
        "eta": view.eta_of(pace, say),
        "trouble": view.trouble_of(run, say) if run.state == "stalled" else None,
        "worst": [(each.jobs, told_error(each.example, each.reason, say)) for each in groups[:3]],
        "situation": view.situation_of(explained, say),
        "silent": pace.silent_seconds or 0.0,
        "quiet": pace.nothing_ends or (pace.silent_seconds or 0.0) * 2 >= run.stall_seconds,
        "stalled_for": view.long_span(pace.silent_seconds or 0.0),
        "span": span,
    }


async def _mosaic(library: Classification, run: Execution, _: ResultsWanted, _say: Say) -> dict[str, Any]:
    return {"letters": (await library.mosaic(run.id))[:MOSAIC]}


async def _log(library: Classification, run: Execution, _: ResultsWanted, say: Say) -> dict[str, Any]:
    return {"lines": await view.log_of(library, run, say), "log_length": view.LINES, "looks": state_styles()}


async def _errors(library: Classification, run: Execution, _: ResultsWanted, _say: Say) -> dict[str, Any]:
    groups = (await library.app.batches.errors(run.id))[:_GROUPS] if run.failed else []
    return {"groups": groups}


async def _taught(library: Classification, run: Execution, _: ResultsWanted, _say: Say) -> dict[str, Any]:
    return {
        "refinements": await library.refinements(run.id, limit=5),
        "counts": await library.example_counts(run.project_id),
    }


async def _results(library: Classification, run: Execution, wanted: ResultsWanted, _say: Say) -> dict[str, Any]:
    found = await library.results(
        run.id,
        category=wanted.categoria or None,
        confidence=wanted.confianca or None,
        only_errors=wanted.erros == "1",
        after=wanted.depois,
        limit=_ROWS + 1,
    )
    named = sorted({category for category, _, _ in await library.categories(run.id)})
    return {"results": found[:_ROWS], "more": found[_ROWS - 1].id if len(found) > _ROWS else None, "categories": named}


async def _replan(library: Classification, run: Execution, _: ResultsWanted, _say: Say) -> dict[str, Any]:
    batch = await library.app.batches.get(run.id)
    return {
        "prompts": [] if run.state.ended else await library.prompts(),
        "cohorts": await library.app.batches.cohorts(run.id) if batch.cohort > 1 else [],
        "span": span,
    }


async def _together(library: Classification, run: Execution, _: ResultsWanted, _say: Say) -> dict[str, Any]:
    return {"finding": await library.finding(run.id)}


_REGIONS = {
    "together": _together,
    "summary": _summary,
    "mosaic": _mosaic,
    "errors": _errors,
    "taught": _taught,
    "replan": _replan,
    "results": _results,
    "log": _log,
}


@router.get("/documentos")
@needs("read", limited=True)
async def find_document(
    run: Found, posicao: Annotated[int, Query(ge=0, lt=MOSAIC)], library: Library, request: Request
) -> Response:
    """The document at a place of the mosaic."""
    found = await library.results(run.id, limit=posicao + 1)
    if len(found) <= posicao:
        raise NotFound(f"Execution {run.id} has no document at place {posicao}.")
    return RedirectResponse(f"{base_of(request)}{ROOT}/execucoes/{run.id}/documentos/{found[-1].id}", 303)


@router.get("/documentos/{result}")
@needs("read", limited=True)
async def show_document(
    run: Found, result: Annotated[Id, Path()], library: Library, visit: Here, request: Request
) -> Response:
    """What was found in one document, and every attempt at it."""
    found = await _result(library, run, result)
    say = speaker(request)
    return await shown(
        request,
        library,
        "document",
        "lots",
        run=run,
        result=found,
        span=span,
        told=told_error(found.error, found.reason, say) if found.error else None,
        attempts=await visit.app.jobs.attempts(found.job_id),
        kinds=await library.labels_of(run.project_id),
        endings=ENDINGS,
    )


async def _result(library: Classification, run: Execution, id: int) -> Result:
    rows = await library.results(run.id, after=id - 1, limit=1)
    if not rows or rows[0].id != id:
        raise NotFound(f"Execution {run.id} has no document {id}.")
    return rows[0]


# — acting: every button is a form, harmless when it is sent twice —


def _back(request: Request, id: int, said: str) -> Response:
    return RedirectResponse(f"{base_of(request)}{ROOT}/execucoes/{id}?dito={said}", 303)


@router.post("/refinar")
@needs("review", limited=True)
async def refine(run: Found, library: Library, visit: Here, request: Request) -> Response:
    """Go through it again with what people taught."""
    await library.refine(run.id, by=visit.caller, conn=visit.conn)
    return _back(request, run.id, "refining")


@router.post("/replanejar")
@needs("operate", limited=True, streamed=True)
async def replan(run: Found, library: Library, visit: Here, request: Request) -> Response:
    """Another prompt for the documents that have not begun."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    prompt = said.get("prompt", "")
    if not prompt.isascii() or not prompt.isdecimal() or len(prompt) > _LONGEST_ID:
        raise ConfigurationError("No prompt was chosen.", next="Choose one from the list.")
    note = said.get("observacao", "").strip()[:_LONGEST_NOTE] or None
    visit.noted.update({"note": note} if note else {})

    async def act(record: Recording) -> str:
        async with visit.app.transaction() as conn:
            done = await library.replan(run.id, int(prompt), note=note, by=visit.caller, conn=conn)
            await record(conn, run.id)
        return done.word

    return _back(request, run.id, await recorded(visit, act))


@router.post("/documentos/{result}/ensinar")
@needs("review", limited=True, streamed=True)
async def teach(run: Found, result: Annotated[Id, Path()], library: Library, visit: Here, request: Request) -> Response:
    """Say what one document is."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    found = await _result(library, run, result)

    async def act(record: Recording) -> None:
        async with visit.app.transaction() as conn:
            await library.teach_one(found.document_id, said.get("categoria", ""), by=visit.caller, conn=conn)
            await record(conn, run.id)

    await recorded(visit, act)
    return _back(request, run.id, "taught")


@router.post("/retomar")
@needs("operate", limited=True)
async def resume(run: Found, library: Library, visit: Here, request: Request) -> Response:
    """Continue where it stopped."""
    done = await library.resume(run.id, by=visit.caller, conn=visit.conn)
    return _back(request, run.id, done.word)


@router.post("/reprocessar-erros")
@needs("operate", limited=True)
async def retry_errors(run: Found, library: Library, visit: Here, request: Request) -> Response:
    """Only the documents in error, once more."""
    done = await library.retry_failed(run.id, by=visit.caller, wait=False, conn=visit.conn)
    return _back(request, run.id, "retried" if done.word == "already_retrying" else done.word)


@router.post("/pausar")
@needs("operate", limited=True)
async def pause(run: Found, visit: Here, request: Request) -> Response:
    """Let it rest."""
    await visit.app.batches.pause(run.id, by=visit.caller, conn=visit.conn)
    return _back(request, run.id, "paused")


@router.post("/cancelar")
@needs("operate", limited=True)
async def cancel(
    run: Found, library: Library, visit: Here, request: Request, sim: Annotated[Literal["", "1"], Query()] = ""
) -> Response:
    """Stop it for good; without JavaScript the question comes as a page of its own."""
    if not sim:
        visit.unchanged = True
        return await shown(request, library, "ask", "lots", **_question(request, run))
    await visit.app.batches.cancel(run.id, by=visit.caller, wait=False, conn=visit.conn)
    return _back(request, run.id, "cancelled")


def _question(request: Request, run: Execution) -> dict[str, Any]:
    say, place = speaker(request), f"{ROOT}/execucoes/{run.id}"
    return {
        "heading": say("classifier.run.cancel_title"),
        "question": say("classifier.run.cancel_ask"),
        "action": f"{place}/cancelar?sim=1",
        "back": place,
        "yes": say("btn.cancel"),
    }
