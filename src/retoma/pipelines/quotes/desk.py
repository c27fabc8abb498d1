"""Quotes with too few prices, at the review desk."""

from __future__ import annotations

from typing import Any

from retoma.errors import ConfigurationError, Conflict
from retoma.model.review import Decision, DecisionKind, Doubt, Evidence, Review, Settling
from retoma.pipelines.quotes import requests, reviews, sources
from retoma.pipelines.quotes.figures import figures_of
from retoma.pipelines.quotes.model import Quote, Source
from retoma.pipelines.quotes.stages import QuoteStatus
from retoma.store.query import Command, Query, load

SQL = load("retoma.pipelines.quotes.queries", "desk.sql")

_DEFAULT = {DecisionKind.ACCEPT: "accepted at the review desk", DecisionKind.REJECT: "rejected at the review desk"}
_PROPOSED = "the prices that were found"
_NAMES = (
    "item",
    "pipeline",
    "since",
    "job_id",
    "batch_id",
    "title",
    "reason",
    "proposal",
    "label",
    "version",
    "confidence",
    "margin",
)


def _doubt(*columns: Any) -> Doubt:
    return Doubt(**dict(zip(_NAMES, columns, strict=True)))


def doubts(limit: int) -> Query[Doubt]:
    return Query(SQL["doubts"], _doubt, {"limit": limit, "label": _PROPOSED})


def back(id: int) -> Query[int]:
    return Query(SQL["back"], int, {"id": id})


class AwaitingQuotes:
    """The adapter of quotes for the review desk. Their prices are changed on their own page."""

    owns_jobs = False
    jobs_of: tuple[str, ...] = ()

    def doubts(self, limit: int) -> Query[Doubt]:
        """Quotes that await a review."""
        return doubts(limit)

    def show(self, review: Review) -> Command[Evidence | None]:
        """The item, and every price that was found, with those that count marked."""
        rows: list[Quote] = yield requests.page(id=int(review.item), whole=True)
        if not rows or rows[0].status is not QuoteStatus.AWAITING_REVIEW:
            return None
        found: list[Source] = yield sources.page([int(review.item)])
        counting = [each for each in found if each.is_accepted]
        lines = [rows[0].input_text, "", *(_line(each) for each in found)]
        return Evidence(
            text="\n".join(lines),
            passage="\n".join(_line(each) for each in counting) or None,
            link=f"/cotacoes/itens/{review.item}",
            facts=(("counting", f"{len(counting)} / {len(found)}"),),
        )

    def settle(self, review: Review, settling: Settling) -> Command[str | None]:
        """The prices that were found are enough, or will not do."""
        if settling.kind not in _DEFAULT:
            raise ConfigurationError(
                f"The prices of quote {review.item} are changed on its own page.",
                next=f"Open /cotacoes/itens/{review.item}, or accept or reject it here.",
            )
        id, accepted = int(review.item), settling.kind is DecisionKind.ACCEPT
        held: list[str] = yield requests.hold(id)
        if held != [QuoteStatus.AWAITING_REVIEW]:
            raise Conflict(f"Quote {id} awaits no review any more.", next="Take the next one.")
        reason = settling.note or _DEFAULT[settling.kind]
        status = QuoteStatus.DONE if accepted else QuoteStatus.ERROR
        found: list[Source] = yield sources.page([id])
        prices = [each.price_value for each in found if each.is_accepted and each.price_value is not None]
        yield requests.decide(
            id,
            status,
            step="completed" if accepted else "error",
            figures=figures_of(prices),
            error=None if accepted else f"refused: {reason}",
        )
        yield reviews.put(
            id, "accept" if accepted else "refuse", reason=reason, by=settling.who, was=held[0], after=status
        )
        return _PROPOSED if accepted else None

    def undo(self, review: Review, decision: Decision) -> Command[None]:
        """The quote awaits its review again."""
        if not (yield back(int(review.item))):
            raise Conflict(
                f"Decision {decision.id} cannot be undone: the quote has changed, or its report is closed.",
                next="What has happened to it since stays.",
            )


def _line(source: Source) -> str:
    price = "–" if source.price_value is None else f"R$ {source.price_value:,.2f}"
    mark = "✓" if source.is_accepted else "✗"
    why = "" if source.is_accepted or not source.failure_reason else f" ({source.failure_reason})"
    return f"{mark} {price} · {source.title}{f' · {source.seller}' if source.seller else ''}{why}"


REVIEWS = AwaitingQuotes()
