"""How a handler ends without returning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from retoma.errors import ConfigurationError
from retoma.model.job import AttemptEnding

_LONGEST = 10 * 365 * 86400


class Ending(BaseException):
    """Raised from anywhere below a handler. It is no Exception, so ``except Exception`` does not catch it."""

    reason: str

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = str(reason).strip()

    def __reduce__(self) -> tuple[Any, ...]:
        # Rebuilt without __init__, so that one raised in a child process arrives with all its attributes.
        return _rebuilt, (type(self), self.args, dict(self.__dict__))


class Skip(Ending):
    """There is nothing to do, and that is fine: the job ends *skipped*."""

    __match_args__ = ("reason",)


class Reject(Ending):
    """It can never be done: the job ends *failed* without another attempt."""

    __match_args__ = ("reason",)


class Postpone(Ending):
    """Not now: the job goes back to the queue, for a delay or until a time, and uses no attempt."""

    __match_args__ = ("seconds", "until", "reason")

    def __init__(
        self,
        reason: str = "",
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        until: datetime | None = None,
    ) -> None:
        super().__init__(reason)
        delay = seconds + 60 * minutes + 3600 * hours
        self.seconds: float | None = None if until is not None else delay
        self.until = until
        if until is not None:
            if delay:
                raise ConfigurationError("Postpone takes a delay or until=, not both.", next="Leave one out.")
            if until.utcoffset() is None:
                raise ConfigurationError(
                    f"Postpone(until={until!r}) has no time zone, so nobody can say when that is.",
                    next="Pass an aware datetime, such as datetime.now(timezone.utc) + timedelta(hours=1).",
                )
        elif not math.isfinite(delay) or not 0 < delay <= _LONGEST:
            raise ConfigurationError(
                f"Postpone needs a delay of more than 0 seconds and at most ten years, not {delay!r}.",
                next="Write Postpone(minutes=10), or Postpone(until=...).",
            )


class Review(Ending):
    """A person must decide: *value* is kept as the proposed answer, and the job waits in *review*.

    What else is said here helps that person. *margin* is by how much the proposal won; the lowest comes first at the
    desk. *confidence* is a probability from 0 to 1, and is compared with what people decide. *label* names the proposal
    in one word; *choices* are the answers that may be chosen with one key: texts, or a mapping from a label to its
    value. *text* is what the decision is about, *passage* the part of it that decided. *version* names the prompt or
    the rules, so that their quality can be compared.
    """

    __match_args__ = ("value", "reason")

    def __init__(
        self,
        value: Any,
        reason: str,
        *,
        margin: float | None = None,
        confidence: float | None = None,
        label: str | None = None,
        choices: Mapping[str, Any] | Sequence[str] = (),
        text: str | None = None,
        passage: str | None = None,
        title: str | None = None,
        version: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.value = value
        self.margin = _measure("margin", margin)
        self.confidence = _measure("confidence", confidence)
        self.label, self.version, self.title = label, version, title
        self.text, self.passage = text, passage
        self.choices: Mapping[str, Any] = (
            dict(choices) if isinstance(choices, Mapping) else {each: each for each in choices}
        )


class Suspend(Ending):
    """The job goes back to the queue for now, and uses no attempt."""

    def __init__(self, ending: str, *, delay: float | None = None, reason: str = "", signals: int = 0) -> None:
        super().__init__(reason)
        self.ending = AttemptEnding(ending)
        self.delay = delay
        self.signals = signals


def _measure(what: str, given: float | None) -> float | None:
    if given is None:
        return None
    number = float(given)
    if not math.isfinite(number) or (what == "confidence" and not 0 <= number <= 1):
        raise ConfigurationError(
            f"Review(..., {what}={given!r}) is no measure of doubt.",
            next="A confidence lies between 0 and 1." if what == "confidence" else "A margin is a finite number.",
        )
    return number


def ending_in(error: BaseException) -> Ending | None:
    """The ending that *error* is, or the first one inside a group."""
    if isinstance(error, Ending):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := ending_in(each))), None)
    return None


def _rebuilt(kind: type[Ending], args: tuple[Any, ...], attributes: dict[str, Any]) -> Ending:
    ending = kind.__new__(kind, *args)
    ending.__dict__.update(attributes)
    return ending
