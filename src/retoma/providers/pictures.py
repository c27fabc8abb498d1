"""Pictures as they go over the wire: in letters, beside the words they belong to."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass

from retoma.providers import Message, Picture


@dataclass(frozen=True, slots=True)
class Lettered:
    """A picture in base64, and its type."""

    kind: str
    data: str


async def lettered(messages: Sequence[Message]) -> dict[str, Lettered]:
    """The pictures of *messages* by their hash, each read once."""
    wanted = {each.sha256: each for message in messages for each in message.pictures}
    return {sha: await asyncio.to_thread(_read, each) for sha, each in wanted.items()}


def _read(picture: Picture) -> Lettered:
    return Lettered(picture.kind, base64.b64encode(picture.file.read_bytes()).decode())
