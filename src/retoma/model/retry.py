"""Retry policies: which failed attempts are retried, and after how long."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import random as _draw

from retoma.errors import ConfigurationError, StepsFailed, Unstorable
from retoma.model.validation import MOST_ATTEMPTS

# A retry would give the same result, and pay for it again.
_POINTLESS = (Unstorable, ConfigurationError)


@dataclass(frozen=True, slots=True)
class Retry:
    """At most *attempts*, *wait* seconds apart, then *factor* times as long each time, up to *longest*.

    *jitter* is the random share of each wait: 0 none, 0.5 between half and all of it, 1 all of it. Errors of the kinds
    *on* are retried, those of the kinds *never* are not.
    """

    attempts: int = 3
    wait: float = 5.0
    factor: float = 2.0
    longest: float = 3600.0
    jitter: float = 0.5
    on: tuple[type[BaseException], ...] = (Exception,)
    never: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or not 1 <= self.attempts <= MOST_ATTEMPTS:  # True is an int, too
            raise ConfigurationError(
                f"Retry(attempts={self.attempts!r}) must be a whole number from 1 to {MOST_ATTEMPTS:,}."
            )
        for name, least, most in (
            ("wait", 0.0, math.inf),
            ("factor", 1.0, math.inf),
            ("longest", 0.0, math.inf),
            ("jitter", 0.0, 1.0),
        ):
            number = getattr(self, name)
            if not isinstance(number, int | float) or not math.isfinite(number) or not least <= number <= most:
                span = f"from {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
                raise ConfigurationError(f"Retry({name}={number!r}) must be a number {span}.")
        for name in ("on", "never"):
            kinds = getattr(self, name)
            if not isinstance(kinds, tuple) or not all(
                isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds
            ):
                raise ConfigurationError(
                    f"Retry({name}={kinds!r}) must be a tuple of exception classes.",
                    next=f"Write Retry({name}=(TimeoutError,)), with the comma.",
                )

    def delay(self, attempt: int, *, at_least: float = 0.0, random: Callable[[], float] = _draw) -> float:
        """Seconds to wait after *attempt* failed (the first is 1); *at_least* is a provider's Retry-After."""
        try:
            nominal = min(self.longest, self.wait * self.factor ** (max(attempt, 1) - 1))
        except OverflowError:
            nominal = self.longest
        chance = nominal * self.jitter * random()
        # Added above the floor: callers that were given the same second must not return together.
        return max(nominal - chance, at_least + chance if at_least > 0 else 0.0)

    def allows(self, error: BaseException) -> bool:
        """Whether *error* is of a kind that another attempt may cure; of several errors, all must be."""
        if isinstance(error, BaseExceptionGroup):
            return all(self.allows(each) for each in error.exceptions)
        if isinstance(error, StepsFailed) and error.failures:
            return all(self.allows(each) for _, each in error.failures)
        return isinstance(error, self.on) and not isinstance(error, self.never + _POINTLESS)


NO_RETRY = Retry(attempts=1, wait=0.0)
"""One attempt, and its failure is final."""
