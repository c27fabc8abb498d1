"""What the pages of the classifier share: who is asked, whether the AI answers, and how an error reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from retoma.app.retoma import Retoma
from retoma.pipelines.classification.http.executions import NAME
from retoma.pipelines.classification.labels import LOCAL
from retoma.pipelines.classification.library import Classification
from retoma.providers import Chat
from retoma.web.http.auth import Here, needs
from retoma.web.pages.languages import language_for
from retoma.web.pages.render import page, region_of
from retoma.web.pages.route import PageRoute
from retoma.web.words import phrase, phrases

router = APIRouter(route_class=PageRoute)

ROOT = "/classificador"
CONTENT = "content:read"

Say = Callable[..., str]


async def _library(visit: Here) -> Classification:
    visit.only(NAME)
    return Classification(visit.app)


Library = Annotated[Classification, Depends(_library)]
"""Classification on the app that is served here, for whoever may see it."""


def speaker(request: Request) -> Say:
    """Says phrases in the language of the page."""
    return partial(phrase, language_for(request))


@dataclass(frozen=True, slots=True)
class Chip:
    """What the head of the page says of the AI and of those who work: *key* of the phrase, its tone and icon."""

    key: str
    tone: str
    icon: str
    model: str = ""


async def chips(app: Retoma) -> list[Chip]:
    """Whether documents would be classified now."""
    if app.provides(Chat):
        chat = app.provider(Chat)
        name = f"{chat.provider}/"
        # The breaker is closed by the first good answer; until then nobody knows that the provider is back.
        shut = [each for each in await app.calls.limits() if each.name.startswith(name)]
        down = any(each.opened_until is not None or each.cooled_until is not None for each in shut)
        model = f"{chat.provider}, {chat.model}"
        found = [Chip("chip.down", "warn", "warning", model) if down else Chip("chip.ready", "good", "check", model)]
    else:
        found = [Chip("chip.local", "good", "check", LOCAL)]
    if not any(each.alive and NAME in each.pipelines for each in await app.workers.all()):
        found.append(Chip("chip.no_workers", "warn", "warning"))
    return found


async def shown(request: Request, library: Classification, template: str, tab: str, **values: Any) -> Response:
    """A page of the classifier, with its tabs and its head."""
    head = [] if region_of(request) else await chips(library.app)
    return page(request, f"classifier/{template}.html", tab=tab, chips=head, root=ROOT, **values)


@router.get("/situacao")
@needs("read", limited=True)
async def show_chips(library: Library, request: Request) -> Response:
    """The head's word on the AI and on those who work, alone: every page of the classifier looks again."""
    return page(request, "classifier/chips.html", chips=await chips(library.app), root=ROOT)


# — errors —

_BY_REASON = {
    "quarantine": "quarantine",
    "timeout": "timeout",
    "ProviderDown": "provider",
    "ProviderTimeout": "provider",
    "RateLimited": "provider",
    "ProviderRefused": "provider",
    "AnswerUnfit": "unfit",
    "unfit": "unfit",
}


def why_refused(code: str, say: Say) -> str:
    """Why a file or a document was not taken, by the code that never changes."""
    key = f"classifier.refused.{code}"
    return say(key if key in phrases("en") else "classifier.refused.other")


def told_error(error: str | None, reason: str | None, say: Say) -> str:
    """What went wrong with a document, in the language of the page; its own words are a technical detail."""
    first = (error or "").strip().partition("\n")[0]
    for word in (first.partition(":")[0].strip(), reason or ""):
        if f"classifier.refused.{word}" in phrases("en"):
            return why_refused(word, say)
        if word in _BY_REASON:
            return why_refused(_BY_REASON[word], say)
    return say("classifier.refused.other")
