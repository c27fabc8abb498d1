"""The menu of the console: its pages in groups, each with the scope that its reader needs."""

from __future__ import annotations

from dataclasses import dataclass

from retoma.app.extension import Link

HOME = Link(path="/console/", word="console.menu.console")


@dataclass(frozen=True, slots=True)
class Entry:
    """A page of the console. Its path is below /console/, its word below ``console.menu``."""

    path: str
    word: str
    icon: str
    scope: str = "read"


@dataclass(frozen=True, slots=True)
class Group:
    """Pages that belong together."""

    word: str
    entries: tuple[Entry, ...]


MENU = (
    Group(
        "work",
        (
            Entry("", "overview", "info"),
            Entry("batches", "batches", "file"),
            Entry("errors", "errors", "warning"),
            Entry("dead-letters", "dead_letters", "cross"),
            Entry("review", "review", "eye", "review"),
            Entry("new", "new", "plus", "submit"),
        ),
    ),
    Group(
        "machine",
        (
            Entry("queues", "queues", "clock"),
            Entry("workers", "workers", "play"),
            Entry("limits", "limits", "stop"),
            Entry("schedules", "schedules", "loop"),
            Entry("operations", "operations", "again"),
            Entry("alerts", "alerts", "warning"),
        ),
    ),
    Group(
        "money",
        (
            Entry("costs", "costs", "download"),
            Entry("calls", "calls", "upload"),
        ),
    ),
    Group(
        "house",
        (
            Entry("system", "system", "check"),
            Entry("access", "access", "key", "admin"),
            Entry("webhooks", "webhooks", "leave", "admin"),
            Entry("audit", "audit", "search", "admin"),
        ),
    ),
)
