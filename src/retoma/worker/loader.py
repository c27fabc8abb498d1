"""Finds the user's program by module:attribute, and names it so that another process finds it too."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any, Protocol

from retoma.errors import AppNotFound, ConfigurationError
from retoma.postgres.database import Database
from retoma.run.registry import Registry
from retoma.system.garbage import loading

_YOURS = (
    "Name your own program as module:attribute or path/to/file.py:attribute; for the ready pipelines leave --app out."
)
_SHAPE = "Write it as module:attribute or path/to/file.py:attribute, for example myapp:app."


class Program(Protocol):
    """What an executor needs from the app that it works for."""

    registry: Registry


class Host(Protocol):
    """What a supervisor needs from the app it works for."""

    @property
    def database(self) -> Database: ...

    async def open(self) -> object: ...

    async def close(self) -> None: ...


def find_program(reference: str) -> Program:
    """The app at *reference*, async or sync. It is recognised by its attributes, because its classes
    live in a higher layer.
    """
    place, _, attribute = reference.rpartition(":")
    if not place or not attribute:
        raise AppNotFound(f"{reference!r} does not say where the app is.", next=_SHAPE)
    module = _module(place, reference)
    found: Any = module
    for name in attribute.split("."):
        found = getattr(found, name, None)
    if not hasattr(found, "registry") or not hasattr(found, "enqueue"):
        there = ", ".join(name for name, each in vars(module).items() if hasattr(each, "registry")) or "none"
        raise AppNotFound(f"{reference!r} is not a Retoma app; in {place} there is: {there}.", next=_SHAPE)
    program: Program = found
    return program


def _module(place: str, reference: str) -> Any:
    if place.endswith(".py"):
        path = Path(place).resolve()
        if not path.is_file():
            raise AppNotFound(f"There is no file {place}.", next=_SHAPE)
        sys.path.insert(0, str(path.parent))
        place = path.stem
    elif str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        with loading():
            return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and place.split(".")[0] == error.name.split(".")[0]:
            raise AppNotFound(f"There is no module {place!r} here ({Path.cwd()}).", next=_YOURS) from None
        raise AppNotFound(f"Importing {reference!r} failed: it needs {error.name!r}, which is not installed.") from None
    except RecursionError:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {error}".rstrip(".: ")
        raise AppNotFound(
            f"Importing {reference!r} failed with {told}.", next="Correct that, and try again."
        ) from error


def reference_to(app: object) -> str:
    """The reference by which another process finds *app*: the module that holds it as a global."""
    main = None
    for name, module in list(sys.modules.items()):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is app and name not in ("__main__", "__mp_main__"):
                return f"{name}:{attribute}"
            if value is app and getattr(module, "__file__", None):
                main = f"{module.__file__}:{attribute}"
    if main is not None:
        return main
    raise ConfigurationError(
        "The executors of a worker are processes of their own, and cannot find this app.",
        next="Keep the app in a module's global, or pass reference='module:attribute'.",
    )
