"""The review desk over HTTP: what waits for a person, and what people decided."""

# Made by tools/sync.py from client/reviews.py; change that one.

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypedDict, Unpack

from retoma.client.sync.async_transport import Transport
from retoma.client.values import Agreement, as_text, given, value_of
from retoma.model.review import Agreed, Decision, Evidence, Review, Reviewing
from retoma.values.cursors import cursor_of

_PAGE = 200


class Of(TypedDict, total=False):
    """Of which pipeline and batch; what is left out does not filter."""

    pipeline: str
    batch_id: int


class Which(Of, total=False):
    """Which reviews; what is left out does not filter."""

    label: str


class By(TypedDict, total=False):
    """What is said with a decision."""

    key: str
    """The same key is the same decision, however often it is sent."""
    note: str
    seconds: float
    """How long the person took."""


class Reviews:
    """What waits for a person: lease it, decide it once, undo it, and compare people with proposals. Who decides is who
    the key belongs to.
    """

    def __init__(self, transport: Transport) -> None:
        self._server = transport

    # — looking —

    def next(self, *, limit: int = 1, seconds: float = 60.0, **which: Unpack[Which]) -> list[Reviewing]:
        """Lease the next reviews, at most 50, those with the lowest margin first. Nobody else gets them for that many
        *seconds*; ``renew`` begins them anew.
        """
        body = {"limit": limit, "lease_seconds": seconds, **given(**which)}
        return [_reviewing(each) for each in (self._server.ask("leaseReviews", body=body))["reviews"]]

    def get(self, id: int) -> Reviewing:
        """A review, whatever its state; its evidence is empty where the key may not see content."""
        return _reviewing(self._server.ask("getReview", id=id))

    def find(self, *, job_id: int | None = None, limit: int = 50, **which: Unpack[Which]) -> list[Review]:
        """What waits, the lowest margin first."""
        query = {"job_id": job_id, **which}
        found = self._server.pages("listReviews", "reviews", most=limit, page=_PAGE, query=query)
        return [_review(each) for each in found]

    def renew(self, ids: Iterable[int] | None = None, *, seconds: float = 60.0) -> list[int]:
        """Keep what one has leased, or those of *ids*; returns the ids of those that one still has."""
        body = {"ids": None if ids is None else list(ids), "lease_seconds": seconds}
        return [int(each) for each in (self._server.ask("renewReviews", body=body))["ids"]]

    def skip(self, id: int) -> bool:
        """Give a review back; it comes to this person again after all others. False when it was not theirs."""
        return bool((self._server.ask("skipReview", id=id))["skipped"])

    # — deciding —

    def accept(self, id: int, **by: Unpack[By]) -> Decision:
        """The proposal becomes the result, once."""
        return _decision(self._server.ask("acceptReview", id=id, body=given(**by)))

    def correct(self, id: int, value: Any, *, label: str | None = None, **by: Unpack[By]) -> Decision:
        """*value* becomes the result, if it fits the pipeline's output; *label* names it in one word."""
        body = {"value": value, **given(label=label, **by)}
        return _decision(self._server.ask("correctReview", id=id, body=body))

    def reject(self, id: int, *, retry: bool = False, **by: Unpack[By]) -> Decision:
        """There is no result: the job fails, or with *retry* it is tried again."""
        return _decision(self._server.ask("rejectReview", id=id, body={"retry": retry, **given(**by)}))

    def undo(self, id: int | None = None, *, key: str | None = None, note: str | None = None) -> Decision:
        """Undo one's last decision, or one's decision *id*: its thing waits again."""
        return _decision(self._server.ask("undoDecision", body=given(decision=id, key=key, note=note)))

    # — what was decided —

    def decisions(
        self,
        *,
        review_id: int | None = None,
        who: str | None = None,
        before: int | None = None,
        limit: int = 50,
        **of: Unpack[Of],
    ) -> list[Decision]:
        """Who decided what, newest first, *before* an id for the next page; an undone one says by which."""
        query = {"review_id": review_id, "who": who, **of}
        query["cursor"] = None if before is None else cursor_of(before)
        found = self._server.pages("listDecisions", "decisions", most=limit, page=_PAGE, query=query)
        return [_decision(each) for each in found]

    def export(self, **of: Unpack[Of]) -> Iterator[Decision]:
        """Every decision, the oldest first. The key must be allowed to see content."""
        for line in self._server.lines("exportDecisions", query={**of}):
            yield _decision(json.loads(line))

    def agreement(self, **of: Unpack[Of]) -> Agreement:
        """How often people kept what was proposed: by label and version, and by confidence."""
        told = self._server.ask("getAgreement", query={**of})
        labels, tenths = ([_agreed(each) for each in told[name]] for name in ("labels", "calibration"))
        return Agreement(told["count"], told["agreed"], labels, tenths)


def _review(told: Mapping[str, Any]) -> Review:
    # Who leased it, the generation of its job and the raw evidence stay on the server.
    hidden = {"fence": None, "evidence": None, "leased_by": None, "title": None, "reason": None}
    return value_of(Review, {**hidden, **as_text(told, "proposal")})


def _reviewing(told: Mapping[str, Any]) -> Reviewing:
    seen = told.get("evidence") or {}
    facts = [(each["name"], each["value"]) for each in seen.get("facts", ())]
    return Reviewing(_review(told["review"]), value_of(Evidence, seen, facts=facts))


def _decision(told: Mapping[str, Any]) -> Decision:
    # The generation of the job and the key that makes the decision one stay on the server.
    return value_of(Decision, {"key": "", "fence": None, "note": None, **as_text(told, "proposed", "decided")})


def _agreed(told: Mapping[str, Any]) -> Agreed:
    row = {"pipeline": "", "label": None, "version": None, "tenth": None, **told}
    return value_of(Agreed, row, decided=told["count"])
