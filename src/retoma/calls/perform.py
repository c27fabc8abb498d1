"""Makes a request of any kind and reads its answer: the one function between a run and the recording of calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from retoma.errors import AnswerUnfit
from retoma.model.job import Claim
from retoma.providers import Answer
from retoma.providers.request import Request
from retoma.telemetry import emit
from retoma.telemetry.events import AnswerMisfit

T = TypeVar("T")


class Calling(Protocol):
    """What makes calls: the caller, or a rehearsal's stand-in."""

    async def call(self, claim: Claim | None, step: str, request: Request[Any], *, kind: str = "first") -> Answer:
        """The answer to *request*."""

    async def unfit(self, numbers: Sequence[int]) -> None:
        """Mark the answers with these numbers as unfit for reuse."""


async def perform(caller: Calling, claim: Claim | None, step: str, request: Request[T]) -> T:
    """The value that *request* asks for. Each repair is a call of its own, with its own cost."""
    if not request.recorded:
        return await request.compute()
    kind = "first"
    unfit: list[int] = []
    while True:
        answer = await caller.call(claim, step, request, kind=kind)
        try:
            return request.read(answer, step=step)
        except AnswerUnfit as error:
            unfit += [] if answer.call is None else [answer.call]
            repaired = request.repaired(answer, error)
            _tell_misfit(claim, step, request, repaired=repaired is not None)
            if repaired is None:
                await caller.unfit(unfit)
                raise
            kind, request = "repair", repaired


def _tell_misfit(claim: Claim | None, step: str, request: Request[Any], *, repaired: bool) -> None:
    emit(
        AnswerMisfit(
            provider=request.provider,
            model=request.model,
            step=step,
            repaired=repaired,
            job=claim.id if claim else None,
            pipeline=claim.pipeline if claim else None,
        )
    )
