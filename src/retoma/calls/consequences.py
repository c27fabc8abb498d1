"""What a refused or failed call means for its job, for its batch, and for every other caller of the same provider."""

from __future__ import annotations

import random
from decimal import Decimal

from retoma.calls.limiter import Limiter
from retoma.calls.planned_call import PlannedCall
from retoma.errors import ConfigurationError
from retoma.model.call import BY_UNIT, PRICE_UNKNOWN, Opened
from retoma.model.endings import Reject, Review, Suspend
from retoma.model.job import AttemptEnding, Claim
from retoma.postgres.database import Database, fetch
from retoma.postgres.faults import retrying
from retoma.providers import Allowance, ProviderError, ProviderRefused, RateLimited, RequestRejected
from retoma.store import batches

_COOL_SECONDS = 5.0
_LONGEST_COOLING = 3600.0  # cap on what a provider says: a wrong clock must not stop a model for years
_MINUTE = 60.0


class Consequences:
    """Decides how a job ends when its call has no answer, and stops other callers from sending
    requests that would fail.
    """

    def __init__(self, database: Database, limiter: Limiter, *, unknown_price: str) -> None:
        self._database = database
        self._limiter = limiter
        self._unknown_price = unknown_price

    # — before the request —

    def must_not_ask(self, call: PlannedCall, found: Opened) -> bool:
        """Whether the intent must be withdrawn."""
        return self._unpriced(call, found) or self._doubtful(call, found)

    async def refusal(self, claim: Claim, call: PlannedCall, found: Opened) -> BaseException:
        """How the job ends after its intent was withdrawn."""
        if self._unpriced(call, found):
            return await self._unknown(claim, call)
        return Review(None, reason=f"the answer of {call.request.limit} to step {call.step!r} is in doubt")

    def _unpriced(self, call: PlannedCall, found: Opened) -> bool:
        return found.budget is not None and not call.price.known and self._unknown_price != "allow"

    def _doubtful(self, call: PlannedCall, found: Opened) -> bool:
        return bool(found.doubts) and call.request.in_doubt == "hold"

    async def _unknown(self, claim: Claim, call: PlannedCall) -> BaseException:
        """A budget cannot be enforced when the price of a call is unknown: the batch is paused until a person sets a
        price, or the job is rejected.
        """
        request = call.request
        units = request.estimate.units
        if self._unknown_price == "ask" and claim.batch_id is not None:
            reason = f"{PRICE_UNKNOWN}: {request.limit}{BY_UNIT if units else ''}"
            await self._database.persist(batches.pause(claim.batch_id, reason=reason))
            return Suspend(AttemptEnding.RELEASED, reason=reason)
        per = "--unit …" if units else "--input … --output …"
        error = ConfigurationError(
            f"Batch {claim.batch_id} has a budget, and nobody knows what {request.limit} costs.",
            next=f"Say so: retoma prices set {request.provider} {request.model} {per}",
        )
        return Reject(str(error))

    async def unpaid(self, batch_id: int, needed: Decimal) -> Suspend:
        """Pause the batch when its budget is used up. While other calls hold reservations, the job only waits, because
        most requests cost less than their reservation.
        """

        async def pause() -> bool:
            async with self._database.transaction() as connection:
                await fetch(connection, batches.hold(batch_id))
                return bool(await fetch(connection, batches.pause(batch_id, reason="budget", needed=needed)))

        if await retrying(pause):
            return Suspend(AttemptEnding.RELEASED, reason="budget")
        return Suspend(AttemptEnding.POSTPONED, delay=random.uniform(0.5, 1.5), reason="budget: others are under way")  # noqa: S311

    # — after the request —

    async def heed(self, limit: str, left: Allowance) -> None:
        """Stop calling a provider that reports no remaining allowance until its reset time. Some providers report the
        time of the full reset, so the pause is a minute at most.
        """
        if 0 in (left.requests, left.tokens) and left.resets_in is not None and left.resets_in > 0:
            await self._limiter.cool(limit, min(left.resets_in, _MINUTE), "the provider says that nothing is left")

    async def failure(self, call: PlannedCall, limit: str, error: ProviderError, sent: float) -> BaseException:
        """What the failure of a request, *sent* at that time, means: cool or break the limit for every caller, and
        return how the job ends.
        """
        claim, provider = call.claim, call.request.provider
        if isinstance(error, RateLimited):
            seconds = min(max(error.retry_after or _COOL_SECONDS, 0.1), _LONGEST_COOLING)
            await self._limiter.cool(limit, seconds, "the provider limits requests")
            return (
                error if claim is None else Suspend(AttemptEnding.POSTPONED, delay=seconds, reason=f"limited: {limit}")
            )
        if isinstance(error, ProviderRefused):
            if claim is None:
                return error
            if claim.batch_id is None:
                return Reject(str(error))
            await self._database.persist(batches.pause(claim.batch_id, reason=f"refused by {provider}"))
            return Suspend(AttemptEnding.RELEASED, reason=f"refused by {provider}")
        if isinstance(error, RequestRejected):
            return error if claim is None else Reject(str(error))
        await self._limiter.failed(limit, sent=sent, reason=type(error).__name__)
        return error
