"""The files that pages ask for beside themselves; each has its content in its address, and may be kept for ever."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable

from retoma.web.packages import files, packages

_KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Asset:
    """A file: what it is, and a short hash of it."""

    body: bytes
    kind: str
    digest: str


def assets() -> dict[str, Asset]:
    """Every file there is, by its name; there is no way from a name to any other file."""
    return _assets(packages())


@cache
def _assets(packages: tuple[str, ...]) -> dict[str, Asset]:
    return dict(pair for folder in files(packages, "static") for pair in _found(folder, ""))


def address_of(name: str) -> str:
    """Where a file is served, without what stands before every path."""
    return f"/static/{assets()[name].digest}/{name}"


def _found(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    found = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _found(each, f"{prefix}{each.name}/")
        elif (kind := _KINDS.get(each.name.rpartition(".")[2])) is not None:
            body = each.read_bytes()
            found.append((f"{prefix}{each.name}", Asset(body, kind, hashlib.sha256(body).hexdigest()[:_DIGITS])))
    return found
