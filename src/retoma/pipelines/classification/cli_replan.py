"""retoma classify replan: another prompt for the documents of an execution that have not begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from retoma.cli import acting, context, output
from retoma.errors import NotFound
from retoma.model.ids import BatchId

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.model.batch import Resumed
    from retoma.pipelines.classification.library import Classification


@click.command()
@click.argument("batch", metavar="BATCH", type=int)
@click.option("--prompt", "named", required=True, metavar="P", help="The new prompt, by its name or number.")
@click.option("--note", metavar="TEXT", help="What is different, for those who compare.")
@context.app_option
def replan(batch: int, named: str, note: str | None, reference: str | None) -> None:
    """Give the documents of BATCH that have not begun another prompt.

    Those that have begun keep theirs, and nothing is paid twice. 'retoma batch cohorts BATCH' compares the two.
    """
    id = BatchId(batch)

    async def act(app: Retoma) -> Resumed:
        from retoma.pipelines.classification.library import Classification  # noqa: PLC0415 - so that --help is quick

        library = Classification(app)
        prompt = await _prompt(library, named)
        did: Resumed = await acting.change(
            app,
            "batch",
            id,
            lambda conn: library.replan(id, prompt, note=note, by=acting.person(), conn=conn),
            noted={"note": note} if note else {},
        )
        if did.batch.operation_id is not None:
            async for _ in app.batches.carry_out(did.batch.operation_id):
                pass
        return did

    did = context.ask_program(reference, act)
    if not did.changed:
        output.talk("Batch {id} has this prompt already; nothing was changed.", id=id)
    else:
        output.talk("The documents of batch {id} that had not begun have the new prompt.", id=id)
        output.talk("To compare: retoma batch cohorts {id}", id=id)
    output.say(f"{did.batch.id}\t{did.batch.state}")


async def _prompt(library: Classification, named: str) -> int:
    found = await library.prompts(name=named)
    if found:
        return found[0].id
    if not (named.isascii() and named.isdecimal()):
        raise NotFound(f"There is no prompt {named}.")
    return (await library.prompt(int(named))).id
