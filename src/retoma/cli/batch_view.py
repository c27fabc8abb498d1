"""How a batch looks: its figures in words, and the bar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from retoma.cli import output
from retoma.cli.language import ENGLISH, Phrase, language, spoken, words
from retoma.values.escaping import visible

if TYPE_CHECKING:
    from datetime import timedelta

    from rich.text import Text

    from retoma.model.batch import Batch, Progress
    from retoma.model.evidence import Explanation
    from retoma.model.last_step import LastStep

_MINUTE, _HOUR = 60, 3600
_SECONDS_ALONE = 2 * _MINUTE
_WIDEST_BAR, _NARROWEST_BAR = 40, 10
_LONGEST_KEY = 24
_TEN = 10
_STATES = ("queued", "running", "completed", "skipped", "failed", "review", "cancelled")
_COLOURS = {
    "queued": "dim",
    "running": "cyan",
    "paused": "blue",
    "stalled": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "dim",
}


def _done(batch: Batch) -> str | None:
    """Of how many jobs how many have ended; nobody knows before the batch is sealed."""
    return None if batch.total is None else f"{batch.total - batch.unfinished}/{batch.total}"


def sum_of(batch: Batch | Progress) -> str | None:
    """What a batch has spent, for a column; nothing when it costs nothing."""
    if batch.unpriced and batch.spent:
        return Phrase("{spent:f} + {unpriced} unknown", spent=batch.spent, unpriced=batch.unpriced)
    if batch.unpriced:
        return Phrase("unknown")
    return f"{batch.spent:f}" if batch.spent else None


BATCH: output.Columns[Batch] = {
    "id": lambda batch: batch.id,
    "name": lambda batch: batch.name,
    "state": lambda batch: batch.state,
    "reason": lambda batch: batch.reason,
    "done": _done,
    "failed": lambda batch: batch.failures or None,
    "resumes": lambda batch: f"{batch.resumes}/{batch.max_resumes}",
    "last key": lambda batch: batch.last_key,
    "progress": lambda batch: batch.last_progress_at,
    "pipeline": lambda batch: batch.pipeline,
    "spent": sum_of,
    "created": lambda batch: batch.created_at,
    "finished": lambda batch: batch.finished_at,
}


# A person has room for a line, and 'batch show' for the rest.
BATCH_IN_SHORT = {name: read for name, read in BATCH.items() if name not in {"spent", "created", "finished"}}


def span(seconds: float) -> str:
    """A length of time, as people say it."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < _SECONDS_ALONE:
        return Phrase("{seconds:.3g} s", seconds=seconds)
    minutes, rest = divmod(round(seconds), _MINUTE)
    if minutes < _MINUTE:
        return f"{minutes} min" + (f" {rest} s" if rest else "")
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours} h" + (f" {minutes} min" if minutes else "")


def money(amount: Decimal) -> str:
    """An amount; small ones with the digits that count."""
    if amount >= 1 or not amount:
        return Phrase("US$ {amount:,.2f}", amount=amount)
    return Phrase("US$ {amount:f}", amount=amount.normalize())


def paid(amount: Decimal, unpriced: int) -> str:
    """A sum, and how many calls it does not know the cost of."""
    if not unpriced:
        return money(amount)
    calls = Phrase("1 call") if unpriced == 1 else Phrase("{number} calls", number=unpriced)
    if amount:
        return Phrase("{amount} and {calls} of unknown cost", amount=money(amount), calls=calls)
    return Phrase("an unknown cost ({calls} without a price)", calls=calls)


def eta(range: tuple[timedelta, timedelta] | None) -> str:
    """How long the rest takes; nothing while that would be a guess."""
    if range is None:
        return ""
    least, most = (each.total_seconds() for each in range)
    if least == most:
        return f"≈ {span(least)}"
    first, last = span(least), span(most)
    number, _, unit = first.partition(" ")
    # One unit is enough when both have the same and no other.
    same = last.partition(" ")[2] == unit and unit in {"s", "min", "h"}
    return f"≈ {number}–{last}" if same else f"≈ {first} – {last}"


def counts(progress: Progress) -> dict[str, int]:
    """How many jobs are in which state."""
    return {state: getattr(progress, state) for state in _STATES}


def figures(progress: Progress) -> dict[str, Any]:
    """Progress as JSON: what was counted, and what follows from it."""
    range = progress.eta
    return {
        **output.plain(progress),
        "done": progress.done,
        "percent": progress.percent,
        "rate": progress.rate,
        "eta_seconds": None if range is None else [each.total_seconds() for each in range],
        "elapsed_seconds": progress.elapsed,
        "silent_seconds": progress.silent_seconds,
        "stalls_in_seconds": progress.stalls_in,
    }


def last_step(last: LastStep) -> Phrase:
    """How the last step of a batch stands, in a line."""
    if last.state == "waiting":
        return Phrase("{pipeline}: waits for {jobs} more jobs", pipeline=last.pipeline, jobs=last.waits_for)
    known = Phrase("{pipeline}: {state} (job {job})", pipeline=last.pipeline, state=last.state, job=last.job_id)
    if last.steps and not last.ended:
        return Phrase(
            "{known}, {steps} steps saved, the last one {step}", known=known, steps=last.steps, step=last.step
        )
    return known


def spent(progress: Progress) -> str:
    """What it has cost, of what it may; nothing when it costs nothing."""
    known = paid(progress.spent, progress.unpriced)
    if progress.budget is not None:
        return Phrase("{known} of {budget}", known=known, budget=money(progress.budget))
    return known if progress.spent or progress.unpriced else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarWords:
    """What stands beside a bar; other languages have their own."""

    errors: str = Phrase("errors {n}")
    last: str = Phrase("last {key}")
    ago: str = Phrase("{last} {span} ago")
    now: str = Phrase("{last} just now")
    rate: str = "{rate}/s"
    point: str = "."
    """What stands before the decimals."""
    states: Mapping[str, str] = field(default_factory=dict)


def bar_words() -> BarWords:
    """Those of the person."""
    if language() == ENGLISH:
        return BarWords()
    from retoma.web.words.sentences import STATES

    said = {name: words(getattr(BarWords(), name)) for name in ("errors", "last", "ago", "now", "rate")}
    return BarWords(**said, point=",", states=STATES)


def bar(progress: Progress, *, width: int, later: float = 0.0, words: BarWords | None = None) -> Text:
    """One line that says how far it has come; *later* is how many seconds ago that was counted."""
    from rich.text import Text

    words = words or bar_words()
    silent = progress.silent_seconds
    last = "" if progress.last_key is None else words.last.format(key=_end_of(progress.last_key))
    if last and silent is not None:
        passed = silent + later
        last = (words.ago if passed >= 1 else words.now).format(last=last, span=span(int(passed)))
    line = Text(f"{progress.done}/{progress.total} ", no_wrap=True, overflow="ellipsis")
    # Never in between: a bar that changes its length cannot be read.
    line.append_text(_drawn(progress, max(_NARROWEST_BAR, min(_WIDEST_BAR, width // 5))))
    line.append(f" {progress.percent:>4.4g}%".replace(".", words.point), style="bold")
    for text, style in (
        (_state(progress, words), _colour(progress)),
        (_pace(progress.rate, words), ""),
        (eta(progress.eta).replace(".", words.point), ""),
        (words.errors.format(n=progress.failed) if progress.failed else "", "red"),
        (_cost(progress), ""),
        (last, "dim"),
    ):
        if text:
            line.append(f"  {text}", style=style)
    return line


def _cost(progress: Progress) -> str:
    if progress.unpriced:
        return f"US$ {spoken(sum_of(progress) or '')}"
    return spoken(money(progress.spent)) if progress.spent else ""


def _end_of(key: str) -> str:
    # Keys that are long are often paths, and their ends say more.
    key = visible(key)
    return key if len(key) <= _LONGEST_KEY else "…" + key[1 - _LONGEST_KEY :]


def _state(progress: Progress, words: BarWords) -> str:
    return "" if progress.state == "running" else words.states.get(progress.state, str(progress.state))


def _colour(progress: Progress) -> str:
    """Done is green, unless nothing came of it."""
    if progress.state == "completed" and progress.failed:
        return "red" if progress.failed == progress.done else "yellow"
    return _COLOURS[progress.state]


def _pace(rate: float | None, words: BarWords) -> str:
    said = f"{rate:.2g}" if rate and rate < _TEN else f"{rate or 0:.0f}"
    return words.rate.format(rate=said.replace(".", words.point)) if rate else ""


def _drawn(progress: Progress, width: int) -> Text:
    """What went well, what did not, and what is left."""
    from rich.text import Text

    amber = progress.state == "stalled"
    ended = width * progress.done // progress.total if progress.total else 0
    # One that failed among thousands is to be seen.
    bad = min(ended, -(-width * progress.failed // progress.total)) if progress.total else 0
    line = Text()
    line.append("▕", style="dim")
    line.append("█" * (ended - bad), style="yellow" if amber else "green")
    line.append("█" * bad, style="red")
    line.append("░" * (width - ended), style="yellow" if amber else "dim")
    line.append("▏", style="dim")
    return line


def why(explanation: Explanation) -> list[Phrase]:
    """What is said of it, what to do, and the command that helps."""
    said = [sentence_of(explanation)]
    if explanation.advice:
        said.append(_translated(explanation, "advice"))
    return [*said, *([Phrase("Try: {next}", next=explanation.command)] if explanation.command else [])]


def sentence_of(explanation: Explanation) -> Phrase:
    """Why a batch moves, or does not."""
    return _translated(explanation, "sentence")


def _translated(explanation: Explanation, name: str) -> Phrase:
    made = Phrase(getattr(explanation, name))
    if language() != ENGLISH:
        from retoma.web.words.causes import translated

        made.said = getattr(translated(explanation, language()), name)
    return made
