"""For your tests: rehearse a handler without a database, drain a queue, crash a worker, let time pass."""

from retoma.testing.ageing import age
from retoma.testing.crashing import crash
from retoma.testing.draining import drain
from retoma.testing.rehearsal import Rehearsal, rehearse

__all__ = ["Rehearsal", "age", "crash", "drain", "rehearse"]
