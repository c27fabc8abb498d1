"""Files become documents, each by itself: what one is refused for does not concern the others."""

from __future__ import annotations

from fastapi import Request

from retoma.errors import RetomaError
from retoma.pipelines.documents import schemas as shapes
from retoma.pipelines.documents.library import Documents
from retoma.pipelines.files.content import clean_name
from retoma.pipelines.files.ingest import FileRefused, StoreDown, StoreFull
from retoma.web.api.schemas.responses import Fault
from retoma.web.http import errors
from retoma.web.http.audit import told_of
from retoma.web.http.auth import Visit
from retoma.web.http.errors import Refusal
from retoma.web.http.multipart import Upload
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.pages import language_for, prefers_page
from retoma.web.words import language_of

BODY = {
    "requestBody": {
        "required": True,
        "description": "One or many files, under any field names.",
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "files": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "minItems": 1,
                            "description": "The files.",
                        }
                    },
                    "required": ["files"],
                }
            }
        },
    }
}
"""The body as the reference shows it; it is read as it comes in, and by nobody but us."""


async def received(library: Documents, visit: Visit, request: Request) -> shapes.Sent:
    """What became of each file of the request; a Refusal when none was taken."""
    became: list[shapes.SentFile] = []
    refusals: list[Refusal] = []
    async for filename, content in Upload(request).files():
        await quotas_of(request).make_room(visit, 1)
        try:
            got = await library.receive(
                filename,
                content,
                uploaded_by=visit.caller,
                correlation_id=visit.correlation_id,
                entry=visit.entry,
            )
        except (FileRefused, StoreDown, StoreFull) as error:
            refusal = _refusal(error)
            refusals.append(refusal)
            became.append(shapes.SentFile(filename=clean_name(filename), error=_problem(request, refusal)))
            continue
        document = got.document
        if got.duplicate_of is None:
            told_of(visit, document.id)
            if document.job_id is not None:
                await submitted(request, "job", [document.job_id])
        taken = shapes.SentFile(
            id=document.id,
            filename=document.filename,
            status=document.status,
            status_url=f"{request.url.path}/{document.id}/status",
        )
        if got.duplicate_of is not None:
            taken = taken.model_copy(update={"duplicate_of": got.duplicate_of})
        became.append(taken)
    if not became:
        raise Refusal("file_missing")
    if len(refusals) == len(became):
        raise _of_all(refusals, became)
    return shapes.Sent(documents=became)


def _language(request: Request) -> str:
    if prefers_page(request):
        return language_for(request)
    return language_of(request.headers.get("accept-language", ""))


def _refusal(error: RetomaError) -> Refusal:
    match error:
        case FileRefused(code=code, limit=limit):
            return Refusal(code, said=error.message, next=error.next, limit=limit, megabytes=(limit or 0) // 1_000_000)
        case StoreFull():
            return Refusal("store_full")  # where we keep things is nobody's business outside
        case _:
            return Refusal("store_unavailable")


def _problem(request: Request, refusal: Refusal) -> shapes.FileProblem:
    problem, _ = errors.explained(request, refusal, _language(request))
    return shapes.FileProblem(code=problem.code, detail=problem.detail)


def _of_all(refusals: list[Refusal], became: list[shapes.SentFile]) -> Refusal:
    """The problem of a request of which nothing was taken: the first one's, with every file among its faults."""
    first = refusals[0]
    faults = [
        Fault(pointer=each.filename, code=each.error.code, detail=each.error.detail)
        for each in became
        if each.error is not None
    ]
    first.faults, first.translated = faults, True
    return first
