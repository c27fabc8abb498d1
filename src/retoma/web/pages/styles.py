"""How a state looks: its word, its icon and its tone, said once for every page."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache

from markupsafe import Markup

from retoma.web.packages import files, packages


@dataclass(frozen=True, slots=True)
class StateStyle:
    """The key of its word, the name of its icon, and its tone: quiet, waiting, busy, good, warn or bad."""

    word: str
    icon: str
    tone: str


def state_styles() -> dict[str, dict[str, StateStyle]]:
    """Every state that a page may show, by kind and name: from the ``states.toml`` of each package that is served."""
    return _state_styles(packages())


@cache
def _state_styles(packages: tuple[str, ...]) -> dict[str, dict[str, StateStyle]]:
    return {
        kind: {state: StateStyle(**look) for state, look in states.items()}
        for each in files(packages, "states.toml")
        for kind, states in tomllib.loads(each.read_text(encoding="utf-8")).items()
    }


# Drawn on a square of 24, in lines.
_DRAWN = {
    "clock": '<circle cx="12" cy="12" r="9"/><path d="M12 7v5.2l3.4 2"/>',
    "spinner": '<path d="M12 3a9 9 0 1 1-8.5 6"/>',
    "check": '<path d="M4.5 12.8 9.6 18 19.5 6.6"/>',
    "cross": '<path d="m6 6 12 12M18 6 6 18"/>',
    "skip": '<path d="M5 6l8 6-8 6zM18 6v12"/>',
    "eye": '<circle cx="12" cy="12" r="3"/><path d="M2.5 12q3.5-6.5 9.5-6.5t9.5 6.5q-3.5 6.5-9.5 6.5T2.5 12z"/>',
    "stop": '<circle cx="12" cy="12" r="9"/><path d="M8 12h8"/>',
    "pause": '<path d="M9 6v12M15 6v12"/>',
    "play": '<path d="M7 5.5v13l11-6.5z"/>',
    "warning": '<path d="M12 4 2.8 19.5h18.4zM12 10v4.4M12 16.9v.2"/>',
    "info": '<circle cx="12" cy="12" r="9"/><path d="M12 11v5.4M12 7.6v.2"/>',
    "upload": '<path d="M12 16V4.5M7 9l5-5 5 5M4 15.5v3A1.5 1.5 0 0 0 5.5 20h13a1.5 1.5 0 0 0 1.5-1.5v-3"/>',
    "download": '<path d="M12 4.5V16M7 11.5l5 5 5-5M4 15.5v3A1.5 1.5 0 0 0 5.5 20h13a1.5 1.5 0 0 0 1.5-1.5v-3"/>',
    "again": '<path d="M19.5 12a7.5 7.5 0 1 1-2.3-5.4L19.5 9M19.5 4v5h-5"/>',
    "remove": '<path d="M4.5 6.5h15M9 6.5v-2h6v2M6.5 6.5l.8 13h9.4l.8-13M10 10.5v5.5M14 10.5v5.5"/>',
    "search": '<circle cx="10.5" cy="10.5" r="6.5"/><path d="m20 20-4.8-4.8"/>',
    "chevron": '<path d="m9 5.5 6.5 6.5L9 18.5"/>',
    "file": '<path d="M6 3.5h8l4.5 4.5v12.5H6zM14 3.5V8h4.5"/>',
    "theme": '<circle cx="12" cy="12" r="8.5"/><path d="M12 3.5v17a8.5 8.5 0 0 0 0-17z" fill="currentColor"/>',
    "leave": '<path d="M14 4.5H6v15h8M10.5 12H20M16.5 8.5 20 12l-3.5 3.5"/>',
    "plus": '<path d="M12 5v14M5 12h14"/>',
    "key": '<circle cx="8" cy="15" r="4.5"/><path d="m11.2 11.8 8.3-8.3M16 7l3 3"/>',
    "loop": '<path d="M6 12a6 6 0 0 1 10.6-3.9L19 10.5M18 12a6 6 0 0 1-10.6 3.9L5 13.5"/>',
}

ICONS = frozenset(_DRAWN)


def icon(name: str) -> Markup:
    """An icon beside a word that says the same, so it is hidden from those who listen."""
    # Nothing from outside is in it: the drawings stand above, and a name that is not there is an error.
    return Markup(  # noqa: S704
        f'<svg class="icon icon-{name}" viewBox="0 0 24 24" aria-hidden="true" focusable="false">{_DRAWN[name]}</svg>'
    )
