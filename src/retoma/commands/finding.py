"""Finds things by what a person knows of them, and keeps the views that people save."""

from __future__ import annotations

import re

from retoma.commands import jobs as job_commands
from retoma.errors import ConfigurationError, NotFound
from retoma.model import validation
from retoma.model.failure import FailureGroup
from retoma.model.view import Hit, View
from retoma.store import failures, looking, views
from retoma.store.query import Command

PAGES = ("batches", "errors", "dead-letters", "operations", "calls", "audit", "queues", "workers", "review")
"""The pages whose queries can be kept."""

_NUMBER = re.compile(r"#?([0-9]{1,18})")
_LONGEST_QUERY = 2000
_LONGEST_NAME = 80
_LOOK = 50_000


def search(text: str, *, pipeline: str | None, limit: int) -> Command[list[Hit]]:
    """Jobs and batches by id; jobs by key, by the name of a file at the end of their key, and by correlation id."""
    validation.page("hits", limit)
    asked = text.strip()
    validation.text("search", asked)
    number = _NUMBER.fullmatch(asked)
    found: list[Hit] = yield looking.hits(asked, int(number[1]) if number else None, pipeline=pipeline, limit=limit)
    page = yield from job_commands.page(
        state=None, pipeline=pipeline, queue=None, key=asked, batch_id=None, before=None, limit=limit, content=False
    )
    found += [Hit("job", each.id, "key", each.key or "", each.state, each.pipeline) for each in page.jobs]
    ends: list[Hit] = yield looking.keyed(
        asked, pipeline=pipeline, limit=limit, before=validation.LARGEST_ID, look=_LOOK
    )
    once: dict[tuple[str, int], Hit] = {}
    for each in (*found, *ends):
        once.setdefault((each.kind, each.id), each)
    return list(once.values())[:limit]


def groups(*, hours: float, pipeline: str | None, limit: int) -> Command[list[FailureGroup]]:
    validation.page("groups", limit)
    if not 0 < hours <= 24 * 366:
        raise ConfigurationError(f"hours must be more than 0 and at most a year, and is {hours:g}.")
    rows: list[FailureGroup] = yield failures.groups(hours=hours, pipeline=pipeline, limit=limit)
    return rows


def keep_view(name: str, *, page: str, query: str, owner: str, shared: bool) -> Command[View]:
    """Keep the *query* of a *page* under a name; one's own view of that name is replaced."""
    said = " ".join(name.split())
    if not 1 <= len(said) <= _LONGEST_NAME:
        raise ConfigurationError(f"A view has a name of 1 to {_LONGEST_NAME} characters, not {said[:80]!r}.")
    validation.text("view", said)
    if page not in PAGES:
        raise ConfigurationError(f"There is no page {page[:80]!r} with views.", next=f"There are {', '.join(PAGES)}.")
    asked = query.removeprefix("?")
    if len(asked) > _LONGEST_QUERY or "\0" in asked:
        raise ConfigurationError(f"The query of a view has at most {_LONGEST_QUERY} characters.")
    rows: list[View] = yield views.keep(said, page=page, query=asked, owner=owner, shared=shared)
    return rows[0]


def remove_view(id: int, *, owner: str | None) -> Command[View]:
    rows: list[View] = (yield views.remove(id, owner=owner)) if validation.is_id(id) else []
    if not rows:
        raise NotFound(f"There is no view {id} of yours.", next="Only its owner removes a view.")
    return rows[0]
