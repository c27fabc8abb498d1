"""The API over HTTP: a whole site, or a router for an application of one's own."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from retoma.web.assembly import Principal, router, site

__all__ = ["Principal", "router", "site"]


# The command line reads the words of this folder, and does not wait for a web framework that may not be installed.
def __getattr__(name: str) -> typing.Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from retoma.web import assembly  # noqa: PLC0415 - what this is about

    return getattr(assembly, name)
