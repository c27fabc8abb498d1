"""For your tests: rehearse a handler without a database, drain a queue, crash a worker, let time pass."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from retoma.testing.ageing import age
    from retoma.testing.crashing import crash
    from retoma.testing.draining import drain
    from retoma.testing.rehearsal import Rehearsal, rehearse

__all__ = ["Rehearsal", "age", "crash", "drain", "rehearse"]

# Imported at the first use: pytest loads the plugin of this package in every project.
_MODULES = {
    "Rehearsal": "rehearsal",
    "age": "ageing",
    "crash": "crashing",
    "drain": "draining",
    "rehearse": "rehearsal",
}


def __getattr__(name: str) -> typing.Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
