"""The review desk: what waits for a person, one thing at a time, decided with one key."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlencode
from uuid import uuid4

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field
from starlette.responses import JSONResponse, RedirectResponse

from retoma.app.reviews import By, Which
from retoma.errors import ConfigurationError, Conflict
from retoma.model.review import Decision, Reviewing
from retoma.web.api.reviews import CONTENT, SCOPE, holder_of
from retoma.web.api.schemas import requests
from retoma.web.console import review_view as view
from retoma.web.console.render import console_page
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import base_of, language_for, prefers_page
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/review", route_class=PageRoute)

_LARGEST_FORM = 200_000
_COOKIE = "retoma_desk"
_AHEAD = 2
_LATELY = 10
_MOST = 1_000_000
_DAY = 86_400.0
_UNFIT = 422

Id = Annotated[requests.Id, Path()]
Told = Annotated[Literal["", "done", "nothing", "skipped"], Query()]


class Sitting(requests.Wanted):
    """What a person works through, and how far they are; all of it is in the address."""

    pipeline: Annotated[str, Field(max_length=200)] = ""
    batch: Annotated[str, Field(max_length=20, pattern=r"^[0-9]*$")] = ""
    label: Annotated[str, Field(max_length=500)] = ""
    n: Annotated[int, Field(ge=0, le=_MOST)] = 0
    next: Annotated[int, Field(ge=0, le=requests.HIGHEST)] = 0
    told: Literal["", "done", "nothing"] = ""
    lang: str = ""

    def query(self, **changed: Any) -> str:
        """The same in an address, with what *changed*."""
        kept = {"pipeline": self.pipeline, "batch": self.batch, "label": self.label, "n": self.n} | changed
        return urlencode({name: value for name, value in kept.items() if value})

    def which(self, visit: Visit) -> Which:
        """Which reviews these are, for those that *visit* may see."""
        return Which(
            pipeline=visit.only(self.pipeline or None) if self.pipeline else None,
            pipelines=visit.pipelines,
            batch_id=int(self.batch) if self.batch else None,
            label=self.label or None,
        )


def _sitting(said: dict[str, str]) -> Sitting:
    known = {name: said[name] for name in ("pipeline", "batch", "label", "n") if said.get(name)}
    try:
        return Sitting.model_validate(known)
    except ValueError:
        raise ConfigurationError("This form was changed on its way.", next="Open the desk anew.") from None


def _holder(visit: Visit, request: Request) -> str:
    """Whose desk this is: a browser has its own, also where nobody signs in."""
    if visit.session_id:
        return holder_of(visit)
    return f"{visit.caller} {request.cookies.get(_COOKIE, '')[:40]}".strip()


def _seat(request: Request, response: Response) -> str:
    """The name of this browser's desk, kept in a cookie."""
    seat = request.cookies.get(_COOKIE, "")[:40] or secrets.token_urlsafe(12)
    response.set_cookie(
        _COOKIE, seat, path=base_of(request) or "/", httponly=True, samesite="lax", secure=request.url.scheme == "https"
    )
    return seat


@router.get("")
@needs(SCOPE, limited=True)
async def show_reviews(sitting: Annotated[Sitting, Query()], visit: Here, request: Request) -> Response:
    """What waits for a person, how often people agreed, and what was decided lately."""
    which = sitting.which(visit)
    counts = await visit.app.reviews.counts(**Which(pipelines=visit.pipelines, batch_id=which.get("batch_id")))
    which["label"] = None
    agreement = await visit.app.reviews.agreement(**which)
    lately = await visit.app.reviews.decisions(limit=_LATELY, **which)
    response = console_page(
        request,
        "review.html",
        current="review",
        sitting=sitting,
        groups=view.groups_of(counts),
        pipelines=sorted({each.pipeline for each in counts}),
        labels=sorted({each.label for each in counts if each.label}),
        waiting=sum(each.waiting for each in counts),
        taken=sum(each.taken for each in counts),
        agreement=agreement,
        by_label=agreement.by_label(),
        is_few=view.is_few,
        points=view.calibration_of(agreement),
        axes=view.axes(),
        lately=lately,
        told=partial(view.sentence, language=language_for(request)),
        export="/api/v1/reviews/export" + (f"?{_exported(sitting)}" if _exported(sitting) else ""),
    )
    _seat(request, response)
    return response


def _exported(sitting: Sitting) -> str:
    kept = {"pipeline": sitting.pipeline, "batch_id": sitting.batch}
    return urlencode({name: value for name, value in kept.items() if value})


@router.post("/start")
@needs(SCOPE, limited=True, streamed=True)
async def start_reviewing(visit: Here, request: Request) -> Response:
    """Take the first thing that waits."""
    sitting = _sitting(await fields_of(request, largest=_LARGEST_FORM))
    visit.unchanged = True
    return await _onward(visit, request, sitting, otherwise="nothing")


async def _leased(visit: Visit, request: Request, sitting: Sitting, holder: str = "") -> list[Reviewing]:
    return await visit.app.reviews.next(
        visit.caller, holder=holder or _holder(visit, request), limit=_AHEAD, **sitting.which(visit)
    )


async def _onward(visit: Visit, request: Request, sitting: Sitting, *, otherwise: str = "done") -> Response:
    """To the next thing; to a script, which things come next."""
    if not visit.session_id and not request.cookies.get(_COOKIE):
        # The desk of this browser begins here.
        response = Response()
        seat = _seat(request, response)
        found = await _leased(visit, request, sitting, f"{visit.caller} {seat}")
        cookie = response.headers.get("set-cookie")
    else:
        found, cookie = await _leased(visit, request, sitting), None
    base = f"{base_of(request)}/console/review"
    ids = [each.review.id for each in found]
    answered: Response
    if not prefers_page(request):
        counts = await visit.app.reviews.counts(**sitting.which(visit))
        waiting = sum(each.waiting for each in counts)
        places = [f"{base}/{id}?{sitting.query()}" for id in ids]
        answered = JSONResponse(
            {"next": places, "n": sitting.n, "waiting": waiting, "end": _end(base, sitting, "done")}
        )
    elif ids:
        following = {"next": ids[1]} if len(ids) > 1 else {}
        answered = RedirectResponse(f"{base}/{ids[0]}?{sitting.query(**following)}", 303)
    else:
        answered = RedirectResponse(_end(base, sitting, otherwise), 303)
    if cookie:
        answered.headers.append("set-cookie", cookie)
    return answered


def _end(base: str, sitting: Sitting, told: str) -> str:
    return f"{base}?{sitting.query(told=told)}"


@router.get("/{id}")
@needs(SCOPE, limited=True)
async def show_review(id: Id, sitting: Annotated[Sitting, Query()], visit: Here, request: Request) -> Response:
    """One thing: what it is about, what is proposed, and what may be decided."""
    return await _shown(id, sitting, visit, request)


async def _shown(
    id: int, sitting: Sitting, visit: Visit, request: Request, *, wrong: str = "", value: str | None = None
) -> Response:
    found = await visit.app.reviews.get(id)
    visit.see(found.review.pipeline, f"review {id}")
    review, content = found.review, visit.may(CONTENT)
    before: list[Decision] = []
    if review.state == "settled":
        before = await visit.app.reviews.decisions(review_id=id, standing=True, limit=1)
    holder = _holder(visit, request)
    live = review.leased_until is not None and review.leased_until > datetime.now(UTC)
    counts = await visit.app.reviews.counts(**sitting.which(visit))
    return console_page(
        request,
        "review_item.html",
        current="review",
        status=_UNFIT if wrong else 200,
        script_words=("console.review.",),
        review=review,
        content=content,
        evidence=found.evidence,
        no_image=view.sentence(found.evidence.no_image, language_for(request)) if content else "",
        told=partial(view.sentence, language=language_for(request)),
        pieces=view.pieces_of(found.evidence.text, found.evidence.passage) if content else [],
        proposal=view.pretty(review.proposal) if content else "",
        value=value if value is not None else view.pretty(review.proposal) if content else "",
        choices=found.evidence.choices if content else (),
        measures=view.measures(review),
        mine=review.leased_by in (None, holder) or not live,
        decision=before[0] if before else None,
        key=str(uuid4()),
        shown=datetime.now(UTC).isoformat(),
        sitting=sitting,
        waiting=sum(each.waiting for each in counts),
        wrong=wrong,
    )


@router.post("/renew")
@needs(SCOPE, limited=True, streamed=True)
async def renew_reviews(visit: Here, request: Request) -> Response:
    """Keep what this desk has; a page that is open asks for it."""
    await fields_of(request, largest=_LARGEST_FORM)
    visit.unchanged = True
    kept = await visit.app.reviews.renew(visit.caller, holder=_holder(visit, request))
    return JSONResponse({"ids": kept})


@router.post("/undo")
@needs(SCOPE, limited=True, streamed=True, records=True)
async def undo_decision(visit: Here, request: Request) -> Response:
    """Undo the last decision of this person, and show its thing again."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    sitting = _sitting(said)
    decision = await _recorded(
        visit, lambda conn: visit.app.reviews.undo(visit.caller, **_by(visit, request, said, conn))
    )
    counted = sitting.model_copy(update={"n": max(0, sitting.n - 1)})
    place = f"{base_of(request)}/console/review/{decision.review_id}?{counted.query()}"
    return RedirectResponse(place, 303) if prefers_page(request) else JSONResponse({"at": place, "n": counted.n})


@router.post("/{id}")
@needs(SCOPE, limited=True, streamed=True, records=True)
async def decide_review(id: Id, visit: Here, request: Request) -> Response:
    """Decide one thing, and go on to the next."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    sitting = _sitting(said)
    found = await visit.app.reviews.get(id)
    visit.see(found.review.pipeline, f"review {id}")
    if said.get("do") == "skip":
        visit.unchanged = True
        await visit.app.reviews.skip(id, visit.caller, holder=_holder(visit, request))
        return await _onward(visit, request, sitting)
    try:
        await _recorded(visit, lambda conn: _decided(visit, found, said, _by(visit, request, said, conn)))
    except (ConfigurationError, Conflict) as error:
        if not prefers_page(request):
            raise
        visit.unchanged = True
        return await _shown(id, sitting, visit, request, wrong=str(error), value=said.get("value"))
    return await _onward(visit, request, sitting.model_copy(update={"n": min(_MOST, sitting.n + 1)}))


async def _recorded(visit: Visit, decide: Callable[[object], Awaitable[Decision]]) -> Decision:
    """The decision and its row in the audit, in one transaction."""

    async def act(record: Recording) -> Decision:
        async with visit.app.transaction() as conn:
            decision = await decide(conn)
            visit.noted |= {"decision": decision.id, "kind": str(decision.kind)}
            await record(conn, decision.review_id)
        return decision

    return await recorded(visit, act)


def _by(visit: Visit, request: Request, said: dict[str, str], conn: object) -> By:
    return By(
        name=visit.name,
        holder=_holder(visit, request),
        key=said.get("key") or None,
        note=said.get("note", "").strip() or None,
        seconds=_seconds(said),
        conn=conn,
    )


def _seconds(said: dict[str, str]) -> float | None:
    """How long the person took: as the page has measured it, or since the page was made."""
    try:
        if said.get("seconds"):
            taken = float(said["seconds"])
        else:
            taken = (datetime.now(UTC) - datetime.fromisoformat(said["shown"])).total_seconds()
    except (KeyError, ValueError, TypeError):
        return None
    return taken if 0 <= taken <= _DAY else None


def _decided(visit: Visit, found: Reviewing, said: dict[str, str], by: By) -> Awaitable[Decision]:
    """What the pressed button asks for."""
    reviews, id, who = visit.app.reviews, found.review.id, visit.caller
    do, _, place = said.get("do", "").partition(":")
    if do == "choose" and place.isdecimal() and 0 < int(place) <= len(found.evidence.choices):
        choice = found.evidence.choices[int(place) - 1]
        if found.review.proposal is not None and choice.value == json.loads(found.review.proposal):
            return reviews.accept(id, who, **by)
        return reviews.correct(id, choice.value, who, label=choice.label, **by)
    match do:
        case "accept":
            return reviews.accept(id, who, **by)
        case "correct":
            return reviews.correct(id, _read(said.get("value", "")), who, **by)
        case "reject":
            return reviews.reject(id, who, retry=said.get("retry") == "1", **by)
    raise ConfigurationError("There is no such decision.", next="Press a button of the page.")


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"This is not JSON: {error}.", next="Change the value, and decide again.") from None
