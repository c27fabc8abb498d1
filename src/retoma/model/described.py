"""What people are told of a pipeline before they give it work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Described:
    """A pipeline: where its jobs wait, what its input looks like, and whether it asks providers."""

    name: str
    queue: str
    description: str
    """The first paragraph of its handler's docstring; empty without one."""
    input_schema: dict[str, Any]
    """The JSON schema of its input; an empty one takes any JSON value."""
    asks_model: bool
    """Whether its handler is given a model, so that its jobs may cost money."""
    providers: list[str]
    """The kinds of provider that its handler is given, by name."""
    internal: bool
    """Whether only the program itself enqueues its jobs: over HTTP they are refused."""
    page: str | None
    """The page of the product that it belongs to, below the address of the site."""
