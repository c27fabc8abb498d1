"""retoma demo: the promise, kept before one's eyes."""

from __future__ import annotations

import asyncio
import signal
import sys

import click

from retoma.cli import output

_FEWEST, _MOST, _USUAL = 60, 2000, 240


@click.command()
@click.option(
    "--documents",
    type=click.IntRange(_FEWEST, _MOST),
    default=_USUAL,
    show_default=True,
    metavar="N",
    help="How many documents to make.",
)
@click.option("--seed", type=int, metavar="S", help="Another number makes other documents.")
@click.option("--lang", type=click.Choice(["pt", "en"]), help="The language to speak; else that of the environment.")
@click.option("--keep", is_flag=True, help="Keep the folder with the database and the documents.")
@output.as_json
def demo(documents: int, seed: int | None, lang: str | None, *, keep: bool, as_json: bool) -> None:
    """Classify some hundred documents, kill a worker, silence the provider, and see the work go on.

    Uses a PostgreSQL of its own in a temporary folder, needs no key and no network, asks nothing, and leaves nothing
    running. The exit code is 1 if a document was lost or anything that was done was done again.
    """
    from retoma.demo.samples import SEED
    from retoma.demo.screen import Screen, Words, language_of
    from retoma.demo.stage import staged
    from retoma.demo.story import play

    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, _interrupted)
    screen = Screen(Words(language_of(lang)))
    screen.begin(documents)
    with staged(keep=keep) as stage:
        report = asyncio.run(play(stage, screen, documents=documents, seed=SEED if seed is None else seed))
    screen.close(report, as_json=as_json)
    if keep:
        screen.say("kept_folder", home=stage.home)
    screen.next_steps()
    click.get_current_context().exit(0 if report.kept else 1)


def _interrupted(number: int, _frame: object) -> None:
    # As Ctrl-C does: what was started is ended on the way out.
    sys.exit(128 + number)
