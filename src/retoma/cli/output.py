"""What a reading command prints: a table for people, tab-separated lines for a pipe, JSON when asked."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import click

from retoma.cli.language import ENGLISH, Phrase, language, relayed, spoken, words
from retoma.values.escaping import visible, visible_json

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

Reader = Callable[[T], object]
Columns = Mapping[str, Reader[T]]
"""What stands in each column of a table, by its heading."""

_NARROW = 10
_JSON_TEXT = ("input", "output", "value", "proposal", "proposed", "decided")
_COLOURS = {
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "review": "magenta",
    "cancelled": "dim",
    "stalled": "yellow",
    "paused": "blue",
    "crashed": "red",
    "lost": "red",
    "timeout": "red",
}

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def in_terminal() -> bool:
    """Whether a person looks at what is printed."""
    return sys.stdout.isatty()


Part = str | int | tuple[str, Mapping[str, Any]]
"""Something to print, plainly or in a style of Click's."""


def screen(*, err: bool = False, highlight: bool = False) -> Console:
    """What tables and moving views are drawn on. NO_COLOR takes every style away, bold type too."""
    from rich.console import Console

    return Console(stderr=err, highlight=highlight, color_system=None if os.environ.get("NO_COLOR") else "auto")


def say(*parts: Part, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print *parts* in a row, in *style* when one is given. This is the only way out of a command: names and keys are
    foreign text, and what would steer the terminal is shown instead. Phrases are said in the language of the person;
    in a pipe they stay English, for a program may read them.
    """
    given = [part if isinstance(part, tuple) else (part, style) for part in parts]
    told = [
        (spoken(text) if isinstance(text, str) and (err or in_terminal()) else str(text), how) for text, how in given
    ]
    click.echo(
        "".join(click.style(visible(text), **how) if how else visible(text) for text, how in told), err=err, nl=nl
    )


def talk(english: str, /, **values: object) -> None:
    """Say something to the person, with *values* in its places; never part of the data."""
    say(Phrase(english, **values) if values or not isinstance(english, Phrase) else english, err=True)


def relay(text: str) -> None:
    """Say to the person what the engine said."""
    say(relayed(text), err=True)


def advise(next: str) -> None:
    """Say what to do next about an error, in the person's language already. A question is put as it is."""
    if next.endswith("?"):
        say(next, err=True)
    else:
        talk("Try: {next}", next=next)


def title(english: str) -> None:
    """What the part is called that comes next."""
    say("\n", Phrase(english), bold=True)


def agreed(question: str, /, **values: object) -> bool:
    """Whether the person says yes to *question*."""
    asked = words(question, **values)
    if language() == ENGLISH:
        return click.confirm(asked, err=True)
    answer: str = click.prompt(f"{asked} [s/N]", default="", show_default=False, err=True)
    return answer.strip().lower() in {"s", "sim", "y", "yes"}


def plain(value: Any) -> Any:
    """*value* as JSON has it: our nouns become objects, their stored JSON is opened, times are ISO."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _opened(each.name, getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, date):  # a time is one, too
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Decimal | UUID) else value


def _opened(name: str, value: Any) -> Any:
    return json.loads(value) if name in _JSON_TEXT and isinstance(value, str) else plain(value)


def json_of(value: Any, *, indent: int | None = None) -> str:
    """*value* as JSON that steers no terminal."""
    return visible_json(json.dumps(plain(value), ensure_ascii=False, indent=indent))


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    say(json_of(value, indent=2 if in_terminal() else None))


def table(rows: Sequence[T], columns: Columns[T], *, nothing: str, below: str = "") -> None:
    """The *rows*; to a person who would see none, *nothing* is said instead. What stands in the column *below* is shown
    whole, under each row, and as long as it is.
    """
    if not in_terminal():
        for row in rows:
            say("\t".join(_cell(read(row)) for read in columns.values()))
    elif rows:
        _draw(rows, columns, below)
    else:
        talk(nothing)


def fields(values: Mapping[str, object], *, as_stored: bool = False) -> None:
    """Names and values, one pair per line. Names *as_stored* are those of tables and of the API, in any language."""
    if not in_terminal():
        for name, value in values.items():
            say(f"{name}\t{_cell(value)}")
        return
    names = [name if as_stored else words(name) for name in values]
    width = max(map(len, names), default=0)
    for name, value in zip(names, values.values(), strict=True):
        say((f"{name:<{width}}  ", {"dim": True}), _for_people(value))


def _draw(rows: Sequence[T], columns: Columns[T], below: str) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = screen(highlight=True)
    beside = {words(heading): read for heading, read in columns.items() if heading != below}
    # A column in which nothing stands would only take room from the others.
    found = {heading: [read(row) for row in rows] for heading, read in beside.items()}
    filled = {name: cells for name, values in found.items() if any(cells := [_for_people(each) for each in values])}
    widths = _widths(filled, console.width)

    def drawn(places: Sequence[int], *, headed: bool) -> Table:
        lines = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold", show_header=headed)
        for heading, width in widths.items():
            lines.add_column(heading, width=width, overflow="ellipsis", no_wrap=True)
        for place in places:
            colours = [_COLOURS.get(str(found[heading][place]), "") for heading in widths]
            lines.add_row(*(Text(filled[name][place], style=how) for name, how in zip(widths, colours, strict=True)))
        return lines

    if below not in columns:
        console.print(drawn(range(len(rows)), headed=True))
        return
    for place, row in enumerate(rows):
        console.print(drawn([place], headed=place == 0))
        if whole := relayed(_for_people(columns[below](row))):
            console.print(Padding(Text(whole, overflow="fold"), (0, 0, 0, 2)))


def _widths(columns: Mapping[str, Sequence[str]], room: int) -> dict[str, int]:
    """How wide each column may be. Long texts give way first; when that is not enough, the last columns do."""
    widths = {heading: max(len(heading), *map(len, cells)) for heading, cells in columns.items()}
    while sum(widths.values()) + 2 * len(widths) > room:
        widest = max(widths, key=lambda heading: widths[heading])
        if widths[widest] > _NARROW:
            widths[widest] -= 1
        elif len(widths) > 1:
            widths.popitem()
        else:
            break
    return widths


def _for_people(value: object) -> str:
    """A cell in a terminal: phrases and states in the language of the person; times as on the clock on the wall, the
    day only when it is another.
    """
    if isinstance(value, Enum):
        return words(str(value.value))
    if isinstance(value, bool):
        return words("yes" if value else "no")
    if not isinstance(value, datetime):
        return _cell(spoken(value) if isinstance(value, Phrase) else value)
    here = value.astimezone()
    return f"{here:%H:%M:%S}" if here.date() == datetime.now().astimezone().date() else f"{here:%Y-%m-%d %H:%M}"


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case True | False:
            return "yes" if value else "no"
        case datetime():
            return value.isoformat()
        case float():
            return f"{value:.6g}"
        case list() | tuple():
            return visible(",".join(map(str, value)))
        case _:
            return visible(" ".join(str(value).split()))
