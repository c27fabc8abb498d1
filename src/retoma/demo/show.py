"""The demo, from the first line to the closing table."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from retoma import Retoma, RetomaError
from retoma.demo import oracle, texts
from retoma.demo.program import Document, study_text
from retoma.demo.stage import AT_ONCE, EXECUTORS, LEASE, Stage, Worker, staged

_LOOK = 0.1
_LONGEST = 180.0
_LONGEST_SILENCE = 10.0


def run(documents: int) -> bool:
    """Play the demo; whether the promise was kept."""
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, _interrupted)
    with staged() as stage:
        return asyncio.run(_play(stage, documents))


def _interrupted(number: int, _frame: object) -> None:
    # As Ctrl-C does: what was started is ended on the way out.
    sys.exit(128 + number)


class Screen:
    """A bar in a terminal, plain lines elsewhere. Talk goes to standard error."""

    def __init__(self, documents: int) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("documents"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )
        self._line: TaskID = self.bar.add_task("", total=documents)
        self._documents = documents
        self._told = 0
        self._began = time.monotonic()

    def say(self, text: str, *, style: str = "") -> None:
        passed = time.monotonic() - self._began
        self.console.print(f"[dim]{passed:5.1f} s[/dim]  {text}", style=style, soft_wrap=True)

    def show(self, done: int, doing: str) -> None:
        self.bar.update(self._line, completed=done, description=doing)
        tenth = 10 * done // self._documents
        if not self.console.is_terminal and tenth > self._told:
            self._told = tenth
            self.say(f"{done} of {self._documents} documents")


@dataclass(slots=True)
class Play:
    """What goes on: the screen, the stage, and how far the work has come."""

    screen: Screen
    stage: Stage
    app: Retoma
    documents: int
    done: int = 0

    async def look(self) -> None:
        mine = [queue for queue in await self.app.queues() if queue.name == self.stage.queue]
        self.done = self.documents - sum(queue.waiting + queue.running for queue in mine)

    async def until(self, ready: Callable[[], bool], worker: Worker, doing: str) -> None:
        """Watch the work until *ready*; a worker that ends meanwhile ends the demo."""
        deadline = time.monotonic() + _LONGEST
        while not ready():
            if worker.ended() or time.monotonic() > deadline:
                raise RetomaError(
                    f"The demo's worker {'ended' if worker.ended() else 'is too slow'}: {worker.last_words()}",
                    next="'retoma doctor' looks at this machine.",
                )
            await asyncio.sleep(_LOOK)
            await self.look()
            self.screen.show(self.done, doing)


async def _play(stage: Stage, documents: int) -> bool:
    screen = Screen(documents)
    paths = texts.write(stage.folder / "texts", documents)
    screen.say(f"{documents} office texts invented, in Portuguese and English")
    app = await stage.app()
    try:
        screen.say(f"PostgreSQL {(await app.health()).version} is up, {_home(stage)}")
        inputs = [Document(str(path), stage.run) for path in paths]
        await app.enqueue_many(study_text, inputs, key=lambda each: Path(each.path).name, queue=stage.queue)
        screen.say("Queued, five steps each: read, tell the language, count, find keywords, record")
        with screen.bar if screen.console.is_terminal else nullcontext():
            killed = await _work(Play(screen, stage, app, documents))
        report = oracle.weigh(
            [path.name for path in paths],
            await oracle.gather(app, stage.queue),
            stage.diary.read(),
            await oracle.rows_of(app, stage.run),
            executor_killed=killed[0],
            worker_killed=killed[1],
        )
    finally:
        await app.close()
    close(report, screen)
    return report.kept


def _home(stage: Stage) -> str:
    return f"in {stage.home}" if "RETOMA_HOME" in os.environ else "in a folder that goes away afterwards"


async def _work(play: Play) -> tuple[datetime, datetime]:
    """Two workers, one after the other; when an executor was killed, and when the first worker was."""
    say, third = play.screen.say, play.documents // 3
    with Worker(play.stage, "first") as first:
        say(f"First worker: supervisor {first.pid}, {EXECUTORS} executors, {AT_ONCE} documents at once in each")
        await play.until(lambda: play.done >= third, first, "at work")
        executor_killed = await play.app.database.now()
        victim = await _executor(play, first)
        os.kill(victim, signal.SIGKILL)
        say(f"kill -9 {victim}: one executor, with {play.done} documents done", style="red")
        await play.until(lambda: play.done >= 2 * third, first, "one executor was killed")
        worker_killed = await play.app.database.now()
        first.kill()
        await play.look()
        say(f"kill -9 {first.pid}: the whole worker and its supervisor, {play.done} documents done", style="red")
    with Worker(play.stage, "second") as second:
        say(f"Second worker: supervisor {second.pid}. It knows nothing but the database")
        await play.until(lambda: play.done >= play.documents, second, "the second worker continues")
        code = second.drain(30)
        say(f"All done; the second worker was asked to stop and left with exit code {code}")
    return executor_killed, worker_killed


async def _executor(play: Play, worker: Worker) -> int:
    """The process of one of its executors, as its first heartbeat told the database."""
    deadline = time.monotonic() + _LONGEST_SILENCE
    while time.monotonic() < deadline:
        for presence in await play.app.workers():
            if presence.label == worker.name and presence.pid != worker.pid:
                return presence.pid
        await asyncio.sleep(_LOOK)
    raise RetomaError("The demo's executors have not been heard of.", next="'retoma doctor' looks at this machine.")


def close(report: oracle.Report, screen: Screen) -> None:
    """The closing table, on standard output."""
    document, keywords = report.example
    lines = {
        "documents done": f"{report.completed} of {report.documents}",
        "rows written, one per document": f"{report.rows} ({report.rows_twice} twice, {report.missing} missing)",
        "steps done": f"{report.steps:,}",
        "steps given back from checkpoints": f"{report.given_back}",
        "finished steps that ran again": f"{report.run_again}",
        "steps cut off by a kill, begun anew": f"{report.cut_off}",
        "jobs recovered": f"{report.recovered_from_executor} from the executor, "
        f"{report.recovered_from_worker} from the worker",
        "back in the queue after": f"{_seconds(report.executor_seconds)} and {_seconds(report.worker_seconds)} "
        f"(lease {LEASE:g} s)",
        "starting over each time would have repeated": f"{report.restart_steps:,} steps, "
        f"{report.restart_seconds:.1f} s of work",
        "for example": f"{document}: {', '.join(keywords)}",
    }
    if sys.stdout.isatty():
        table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
        for name, value in lines.items():
            table.add_row(name, value)
        Console(highlight=False).print(table)
    else:
        sys.stdout.writelines(f"{name}\t{value}\n" for name, value in lines.items())
    if report.kept:
        screen.say("Nothing was lost, and nothing that was finished was done again.", style="green")
    else:
        screen.say("The promise was broken: see the table. This is a bug; please report it.", style="bold red")


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{max(seconds, 0.0):.2f} s"
