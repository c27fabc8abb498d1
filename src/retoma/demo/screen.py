"""How the demo looks: sentences as things happen, a bar below them, and a table at the end."""

from __future__ import annotations

import asyncio
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from retoma.cli import output
from retoma.cli.batch_view import BarWords
from retoma.cli.batch_watch import View
from retoma.cli.language import language
from retoma.values.escaping import visible

if TYPE_CHECKING:
    from retoma.demo.oracle import Report
    from retoma.model.batch import Progress

LANGUAGES = ("en", "pt")
_REFRESH = 8
_TENTH = 10

_MARKS = {
    "server": ("✔", "green"),
    "documents": ("✔", "green"),
    "workers": ("✔", "green"),
    "batch": ("▸", "bold"),
    "refused": ("⚠", "yellow"),
    "killed": ("✖", "red"),
    "replaced": ("→", "cyan"),
    "given_back": ("✔", "green"),
    "outage": ("✖", "red"),
    "stalled": ("⚠", "bold yellow"),
    "cause": (" ", "yellow"),
    "resumed": ("✔", "green"),
    "completed": ("✔", "green"),
    "retrying": ("→", "cyan"),
    "retried": ("✔", "green"),
}
"""What stands before a sentence, and how both are coloured; what is not here is an aside to the one above it."""

_APART = ("batch", "killed", "outage", "stalled", "resumed", "completed", "retrying")
"""Where something new begins."""


def language_of(given: str | None) -> str:
    """The language to speak: the one that was asked for, or that of the environment."""
    return given or language()


class Words:
    """The sentences of the demo, in one language."""

    def __init__(self, language: str) -> None:
        place = files("retoma.demo").joinpath("words", f"{language}.toml")
        self.language = language
        self.all: dict[str, Any] = tomllib.loads(place.read_text(encoding="utf-8"))

    def say(self, place: str, /, **values: Any) -> str:
        """The sentence at *place* (``table.redone``), filled in."""
        found: Any = self.all
        for name in place.split("."):
            found = found[name]
        numbers = {name: _Comma(each) if isinstance(each, float) else each for name, each in values.items()}
        return str(found).format_map(numbers if self.language == "pt" else values)

    def reason(self, code: str) -> str:
        """Why a document failed."""
        return str(self.all["reasons"].get(code, code))

    def cause(self, verdict: str, evidence: Mapping[str, Any]) -> str:
        """Why the batch does not move; what nobody translated is said as the engine says it."""
        return str(self.all["causes"].get(verdict, "{sentence}")).format_map(evidence)


class _Comma(float):
    """A number as it is written in Portuguese."""

    def __format__(self, how: str) -> str:
        return super().__format__(how).replace(".", ",")


class Screen:
    """A bar in a terminal, plain lines elsewhere. Talk goes to standard error, figures to standard output."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.console = output.screen(err=True)
        self._view = View(words=BarWords(**words.all["bar"]))
        self._told = 0

    def begin(self, documents: int) -> None:
        """The title."""
        self.console.print()
        self._print(Text(self.words.say("title"), style="bold"))
        self._print(Text(self.words.say("intro", documents=documents), style="dim"))
        self.console.print()

    def say(self, key: str, /, **values: Any) -> None:
        """Say the sentence *key*."""
        if key == "reasons":
            for code, count in values["reasons"].items():
                self._aside(f"{count} × {self.words.reason(code)}")
            return
        if key == "cause":
            values = {"cause": self.words.cause(**values)}
        sentence = self.words.say(key, **values)
        if key not in _MARKS:
            self._aside(sentence)
            return
        mark, style = _MARKS[key]
        strong = style if mark in "✖⚠ " else ""
        self._print(Text(sentence, style=strong), mark=Text(mark, style=style), apart=key in _APART)

    def _aside(self, sentence: str) -> None:
        self._print(Text(sentence, style="dim"))

    def _print(self, what: Text, *, mark: Text | None = None, apart: bool = False) -> None:
        """A sentence, with its *mark* before it; *apart* leaves a line free above it."""
        mark = mark or Text(" ")
        what = Text(visible(what.plain), style=what.style)
        if not self.console.is_terminal:
            # A pipe has no width, and whoever reads it wants whole lines.
            self.console.print(f"  {mark.plain} {what.plain}", soft_wrap=True, markup=False)
            return
        line = Table.grid(padding=(0, 1))
        line.add_row(" ", mark, what)
        self.console.print(Padding(line, (int(apart), 1, 0, 0)))

    def see(self, progress: Progress) -> None:
        """Show how far the batch has come."""
        self._view.see(progress)
        tenth = int(progress.percent) // _TENTH
        if not self.console.is_terminal and tenth > self._told:
            errors = self.words.say("bar.errors", n=progress.failed) if progress.failed else ""
            self._aside(f"{progress.done}/{progress.total}  {_TENTH * tenth}%  {errors}".rstrip())
        self._told = tenth

    def live(self) -> AbstractContextManager[object]:
        """While this lasts, the bar is shown."""
        return self._drawn() if self.console.is_terminal else nullcontext()

    @contextmanager
    def _drawn(self) -> Iterator[None]:
        bar = Padding(self._view, (1, 0, 1, 2))
        with Live(bar, console=self.console, refresh_per_second=_REFRESH, transient=True):
            yield

    async def pause(self, seconds: float) -> None:
        """Leave a person the time to read, or until Enter; nobody waits where there is none."""
        if not (sys.stdin.isatty() and self.console.is_terminal):
            return
        self._aside(f"[{self.words.say('pause')}]")
        loop, pressed = asyncio.get_running_loop(), asyncio.Event()

        def entered() -> None:
            sys.stdin.readline()
            pressed.set()

        loop.add_reader(sys.stdin.fileno(), entered)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(pressed.wait(), seconds)
        finally:
            loop.remove_reader(sys.stdin.fileno())

    def close(self, report: Report, *, as_json: bool) -> None:
        """The closing table, and whether every promise was kept."""
        if as_json:
            output.print_json(report.as_json())
        else:
            self._table(report)
        broken = [name for name, kept in report.checks.items() if not kept]
        for name in broken:
            told = self.words.say("end.broken", check=self.words.say(f"checks.{name}"))
            self._print(Text(told, "bold red"), mark=Text("✖", "bold red"))
        if not broken:
            told = self.words.say("end.kept", n=len(report.checks))
            self._print(Text(told, "bold green"), mark=Text("✔", "bold green"))

    def _table(self, report: Report) -> None:
        lines = rows(self.words, report)
        if not output.in_terminal():
            sys.stdout.writelines(f"{name}\t{value}\n" for name, value in lines)
            return
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column()
        for name, value in lines:
            table.add_row(name, value)
        output.screen().print(Padding(table, (1, 0, 1, 2)))

    def next_steps(self) -> None:
        """What to do now."""
        self.console.print()
        self._print(Text(self.words.say("end.next"), style="bold"))
        for name in ("next_up", "next_classify", "next_read"):
            self._print(Text(self.words.say(f"end.{name}")))
        self.console.print()


def rows(words: Words, report: Report) -> list[tuple[str, str]]:
    """The closing table, line by line."""
    told = report.happened
    values: Mapping[str, Mapping[str, Any]] = {
        "classified": {"n": report.classified, "review": report.to_review},
        "skipped": {"n": told.skipped_on_resume},
        "redone": {"n": report.redone},
        "anew": {"n": report.begun_anew},
        "given_back": {"n": told.given_back, "held": told.held, "steps": told.steps_reused},
        "retried": {"n": told.retried, "recovered": told.recovered},
        "failed": {"n": report.failed},
    }
    lines = [(words.say("table.documents"), str(report.documents))]
    lines += [(words.say(f"table.{name}"), words.say(f"table.{name}_value", **each)) for name, each in values.items()]
    lines += [("", f"{count} × {words.reason(code)}") for code, count in report.reasons.items()]
    read = report.scanned_read
    lines.append((words.say("table.ocr"), words.say("table.ocr_read" if read else "table.ocr_unread")))
    lines.append((words.say("table.spent"), words.say("table.spent_value", amount=float(report.spent))))
    lines.append((words.say("table.saved"), words.say("table.saved_value", seconds=told.saved_seconds)))
    if report.accuracy is not None and report.baseline is not None:
        found = {"accuracy": report.accuracy, "baseline": report.baseline}
        lines.append((words.say("table.accuracy"), words.say("table.accuracy_value", **found)))
    lines.append((words.say("table.seconds"), words.say("table.seconds_value", seconds=report.seconds)))
    return lines
