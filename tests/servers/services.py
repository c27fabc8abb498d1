"""Every service that the providers talk to, on one port, as it speaks: started by tests/providers as a process.

A key that does not hold the word "secret" is refused, and the refusal repeats it, as some services do. ``GET /_told``
tells of every document that was ever handed in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anthropic_wire
import blob_wire
import documents_wire
import fipe_wire
import openai_wire
import serpapi_wire

from retoma.testing.wire import Asked, Given, Wire

WIRES = (openai_wire, anthropic_wire, documents_wire, serpapi_wire, fipe_wire, blob_wire)
ROUTES: list[tuple[str, Callable[[Asked], Given]]] = [route for wire in WIRES for route in wire.ROUTES]


async def handle(asked: Asked) -> Given:
    for path, answer in ROUTES:
        if path in asked.path:
            return answer(asked)
    return Given.json({"error": {"message": f"no route {asked.path}"}}, status=404)


if __name__ == "__main__":
    served: Callable[[Asked], Awaitable[Given]] = handle
    asyncio.run(Wire(served, told={"submitted": documents_wire.RECORD}).serve())
