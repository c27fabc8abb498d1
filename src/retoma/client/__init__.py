"""A client of the API over HTTP: ``AsyncClient`` with ``await``, ``Client`` without; the same namespaces and values as
an app has. It needs the extra ``client``, no database, and nothing of the server.

A change carries an ``Idempotency-Key`` and is sent again when no answer comes, so it is done once. A problem becomes an
error of ``retoma.errors``; ``retoma.client.errors`` has those that only a client meets.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from retoma.client.client import AsyncClient, Client
    from retoma.client.errors import AccessDenied, ServerFailed, ServerUnreachable

__all__ = ["AccessDenied", "AsyncClient", "Client", "ServerFailed", "ServerUnreachable"]

_MODULES = {"AsyncClient": "client", "Client": "client"}


def __getattr__(name: str) -> typing.Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value
