"""retoma batch watch: a bar in a terminal, lines in a pipe. It only looks: whoever leaves it stops nothing."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from retoma.cli import acting, batch_view, context, output
from retoma.cli.language import Phrase, spoken
from retoma.cli.root import INTERRUPTED
from retoma.model.ids import BatchId
from retoma.values.escaping import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from retoma.app.retoma import Retoma
    from retoma.model.batch import Progress
    from retoma.model.evidence import Explanation

FAILED, SOME_FAILED, STALLED = 1, 8, 9
_WONDER_SECONDS = 2.0


@dataclass(slots=True)
class View:
    """What was seen last, drawn again and again as the clock goes on."""

    now: Progress | None = None
    why: Explanation | None = None
    seen_at: float = field(default_factory=time.monotonic)
    words: batch_view.BarWords = field(default_factory=batch_view.bar_words)

    def see(self, now: Progress) -> None:
        self.now, self.why, self.seen_at = now, None, time.monotonic()

    @property
    def later(self) -> float:
        """Seconds since then."""
        return time.monotonic() - self.seen_at

    @property
    def quiet(self) -> bool:
        """Whether a person begins to wonder: it does not run, or half the time is over in which it must move."""
        if self.now is None or self.now.state.ended:
            return False
        silent = self.now.silent_seconds
        return silent is None or silent + self.later > self.now.stall_seconds / 2

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        if self.now is None:
            return
        yield batch_view.bar(self.now, width=options.max_width - 1, later=self.later, words=self.words)
        if self.why is not None:
            style = "yellow" if self.why.needs_help else "dim"
            yield Text(visible("\n".join(map(spoken, batch_view.why(self.why)))), style=style)


@click.command()
@click.argument("id", type=int)
@click.option("--jsonl", is_flag=True, help="Print one JSON document per line.")
def watch(id: BatchId, *, jsonl: bool) -> None:
    """Watch a batch until it has ended or stalled. Ctrl-C leaves the watch, not the work.

    The exit code is 0 when all went well, 8 when some jobs failed, 9 when it stalled, and 1 when it failed or was
    cancelled.
    """
    try:
        code = context.ask(lambda app: _watched(app, id, jsonl=jsonl))
    except KeyboardInterrupt:
        output.talk("You left the watch; the work goes on. To come back: retoma batch watch {id}", id=id)
        code = INTERRUPTED
    click.get_current_context().exit(code)


async def _watched(app: Retoma, id: BatchId, *, jsonl: bool) -> int:
    await acting.shown(app, "batch", id, app.batches.get(id))
    return await follow(app, id, jsonl=jsonl)


async def follow(app: Retoma, id: BatchId, *, jsonl: bool = False) -> int:
    """Show a batch until it has ended or stalled; the exit code that says how."""
    view = View()
    drawn = output.in_terminal() and not jsonl
    with _live(view) if drawn else nullcontext():
        wondering = asyncio.create_task(_wonder(app, id, view, aloud=not drawn))
        try:
            async for now in app.batches.watch(id):
                view.see(now)
                if not drawn:
                    _tell(now, jsonl=jsonl)
                if now.state == "stalled":
                    break
        finally:
            wondering.cancel()
            await asyncio.gather(wondering, return_exceptions=True)
    return _end(now, await app.batches.explain(id))


def _live(view: View) -> AbstractContextManager[object]:
    from rich.live import Live

    return Live(view, console=output.screen(), refresh_per_second=4)


async def _wonder(app: Retoma, id: BatchId, view: View, *, aloud: bool) -> None:
    """Say why nothing moves, while nothing moves."""
    told = None
    while True:
        await asyncio.sleep(_WONDER_SECONDS)
        if not view.quiet:
            told = None
            continue
        view.why = await app.batches.explain(id)
        if aloud and view.why.verdict != told:
            told = view.why.verdict
            for line in batch_view.why(view.why):
                output.talk(line)


def _tell(now: Progress, *, jsonl: bool) -> None:
    if jsonl:
        output.say(output.json_of(batch_view.figures(now)))
        return
    rate = now.rate
    said = {
        "at": now.now.isoformat(),
        "state": now.state,
        "done": now.done,
        "total": now.total,
        "percent": now.percent,
        "rate": "" if rate is None else f"{rate:.3g}",
        "eta": "" if now.eta is None else "-".join(f"{each.total_seconds():.0f}" for each in now.eta),
        "errors": now.failed,
        "spent": batch_view.sum_of(now) or now.spent,
        "last key": now.last_key or "",
    }
    output.say("\t".join(map(str, said.values())))


def _end(now: Progress, why: Explanation) -> int:
    """The last words, and the exit code."""
    called = Phrase("Batch {id} ({name})", id=now.id, name=now.name)
    if now.state == "completed":
        took = "" if now.elapsed is None else Phrase(" in {span}", span=batch_view.span(now.elapsed))
        cost = Phrase(", {cost}", cost=paid) if (paid := batch_view.spent(now)) else ""
        output.talk("{batch} is completed: {done} jobs{took}{cost}.", batch=called, done=now.done, took=took, cost=cost)
        if now.failed:
            output.talk("{failed} failed; 'retoma batch errors {id}' says why.", failed=now.failed, id=now.id)
            output.talk("Try: {next}", next=f"retoma batch retry-failed {now.id}")
        return SOME_FAILED if now.failed else 0
    if now.state == "stalled":
        output.talk(
            "{batch} has stalled at {done} of {total}; nothing that is done is lost.",
            batch=called,
            done=now.done,
            total=now.total,
        )
    else:
        output.talk(
            "{batch} is {state} at {done} of {total}.", batch=called, state=now.state, done=now.done, total=now.total
        )
    for line in batch_view.why(why):
        output.talk(line)
    return STALLED if now.state == "stalled" else FAILED
