"""Embeddings: texts added by their content, how they stand, and found by what they mean."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AfterValidator, Field

from retoma.model.job import JobState
from retoma.pipelines.embeddings import library
from retoma.pipelines.embeddings.library import LONGEST, MOST_CHARACTERS, Embeddings
from retoma.pipelines.embeddings.search import MOST_CHARACTERS as LONGEST_SEARCH
from retoma.web.api.schemas.requests import Asked, Wanted
from retoma.web.api.schemas.responses import Schema, Time
from retoma.web.http.auth import Here, needs
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.http.route import ApiRoute

MOST_TEXTS = 1_000
_CONTENT = "content:read"
_DONE = 200

router = APIRouter(prefix="/embeddings", tags=["embeddings"], route_class=ApiRoute)


def _worded(text: str) -> str:
    if not any(map(str.isalnum, text)):
        raise ValueError("there is no word in it")
    return text


Organisation = Annotated[str, Field(min_length=1, max_length=LONGEST["organisation"])]
Site = Annotated[str, Field(min_length=1, max_length=LONGEST["site"])]
SourceType = Annotated[str, Field(min_length=1, max_length=LONGEST["source_type"])]
SourceId = Annotated[str, Field(min_length=1, max_length=LONGEST["source_id"])]


class NewText(Asked):
    """What a source says now."""

    organisation: Organisation
    site: Site
    source_type: SourceType
    source_id: SourceId
    text: Annotated[str, Field(alias="content", min_length=1, max_length=MOST_CHARACTERS), AfterValidator(_worded)]
    language: Annotated[str, Field(min_length=1, max_length=LONGEST["language"])] | None = None


class NewTexts(Asked):
    """One text or many, added all together or not at all."""

    texts: Annotated[list[NewText], Field(min_length=1, max_length=MOST_TEXTS)]


class AddedText(Schema):
    """A text that was added: the version it is of its source, and the job of its content, new or there already."""

    source_type: str
    source_id: str
    version: int
    active: bool
    content_hash: str
    job_id: int
    state: JobState
    new: bool
    status_url: str = ""


class AddedTexts(Schema):
    """What became of each text, in their order."""

    texts: list[AddedText]


class EmbeddingStatus(Schema):
    """How many vectors are stored, and how many versions of sources are in which state: ``active`` is found, ``off``
    no longer; the others wait, and their state is that of their job.
    """

    stored: int
    states: dict[str, int]


class Speaker(Schema):
    """A source that says a text."""

    source_type: str
    source_id: str


class Hit(Schema):
    """A text that answers. The excerpt is there with the scope content:read."""

    content = ("excerpt",)

    sources: list[Speaker]
    score: float
    similarity: float | None
    content_hash: str
    language: str | None
    excerpt: str | None = None


class Hits(Schema):
    """Texts that answer, the best first."""

    hits: list[Hit]


class Version(Schema):
    """What a source said once. Its text is there with the scope content:read, once it is embedded."""

    content = ("text",)

    provider: str
    model: str
    version: int
    state: str
    content_hash: str
    text: str | None = None
    language: str | None
    job_id: int
    correlation_id: str | None
    created_at: Time
    switched_on_at: Time | None
    switched_off_at: Time | None


class Source(Schema):
    """A source and all that it ever said, the newest first."""

    organisation: str
    site: str
    source_type: str
    source_id: str
    versions: list[Version]


class SiteFilter(Wanted):
    """Of whom; all when nothing is said."""

    organisation: Organisation | None = None
    site: Site | None = None


class SitePlace(Wanted):
    """The site of an organisation."""

    organisation: Organisation
    site: Site


class TextQuestion(SitePlace):
    """What to look for, and where."""

    q: Annotated[str, Field(min_length=1, max_length=LONGEST_SEARCH), AfterValidator(_worded)]
    limit: Annotated[int, Field(ge=1, le=100)] = 10


@router.post("", status_code=202, responses={200: {"model": AddedTexts, "description": "All were embedded before."}})
@needs("submit", limited=True, refuses=("pipelines_limited",))
async def add_texts(order: NewTexts, visit: Here, request: Request, response: Response) -> AddedTexts:
    """Add texts. Content that was embedded before is no new work; when that is true of all, the answer is 200."""
    visit.only(library.NAME)
    new = [library.NewText(**text.model_dump(by_alias=True)) for text in order.texts]
    added = await Embeddings(visit.app).add_many(new, conn=visit.conn, correlation_id=visit.correlation_id)
    await submitted(request, "job", [each.job_id for each in added if each.new])
    await quotas_of(request).make_room(visit, 0)
    if all(each.active for each in added):
        response.status_code = _DONE
    jobs = request.url.path.removesuffix(router.prefix) + "/jobs"
    if response.status_code != _DONE:
        response.headers["Location"] = f"{jobs}/{added[0].job_id}" if len(added) == 1 else request.url.path
    return AddedTexts(texts=[_added(each, f"{jobs}/{each.job_id}") for each in added])


def _added(added: library.Added, url: str) -> AddedText:
    told = {name: getattr(added, name) for name in AddedText.model_fields if name != "status_url"}
    return AddedText(**told, status_url=url)


@router.get("")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def get_embedding_status(wanted: Annotated[SiteFilter, Query()], visit: Here) -> EmbeddingStatus:
    """How far the texts are."""
    visit.only(library.NAME)
    return EmbeddingStatus.of(await Embeddings(visit.app).status(wanted.organisation, wanted.site))


@router.get("/search")
@needs("read", limited=True, costs=True, refuses=("pipelines_limited", "provider_unavailable"))
async def search_texts(wanted: Annotated[TextQuestion, Query()], visit: Here) -> Hits:
    """Find texts of a site by meaning and by words. Only what sources say now is found."""
    visit.only(library.NAME)
    found = await Embeddings(visit.app).search(
        wanted.q, organisation=wanted.organisation, site=wanted.site, limit=wanted.limit
    )
    return Hits(hits=[_hit(each, content=visit.may(_CONTENT)) for each in found])


def _hit(found: library.Hit, *, content: bool) -> Hit:
    told = {name: getattr(found, name) for name in Hit.model_fields if content or name not in Hit.content}
    return Hit(**{**told, "sources": [Speaker.of(each) for each in found.sources]})


@router.get("/sources/{source_type}/{source_id:path}")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def get_source(
    source_type: Annotated[SourceType, Path()],
    source_id: Annotated[SourceId, Path()],
    wanted: Annotated[SitePlace, Query()],
    visit: Here,
) -> Source:
    """A source with its versions. Their texts are there with the scope ``content:read``."""
    visit.only(library.NAME)
    found = await Embeddings(visit.app).source(wanted.organisation, wanted.site, source_type, source_id)
    return Source(
        organisation=wanted.organisation,
        site=wanted.site,
        source_type=source_type,
        source_id=source_id,
        versions=[Version.of(each, content=visit.may(_CONTENT)) for each in found],
    )
