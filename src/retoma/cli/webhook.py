"""retoma webhook: messages about the work, to an address of yours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from retoma.cli import acting, context, output, params
from retoma.cli.language import Phrase

if TYPE_CHECKING:
    from datetime import timedelta

    from retoma.app.retoma import Retoma
    from retoma.app.webhooks import Delivery, Endpoint

_ENDPOINT: output.Columns[Endpoint] = {
    "id": lambda each: each.id,
    "is": lambda each: Phrase("disabled" if each.disabled_at else "failing" if each.failures else "open"),
    "address": lambda each: each.url,
    "waiting": lambda each: each.waiting,
    "failed": lambda each: each.failed,
    "last arrived": lambda each: each.succeeded_at,
    "kinds": lambda each: each.kinds,
}
_DELIVERY: output.Columns[Delivery] = {
    "id": lambda each: each.id,
    "kind": lambda each: each.kind,
    "is": lambda each: Phrase(each.state),
    "attempts": lambda each: each.attempts,
    "status": lambda each: each.status,
    "error": lambda each: each.error,
    "created": lambda each: each.created_at,
    "next": lambda each: each.next_at,
}
_LONGEST = 10_000


@click.group()
def webhook() -> None:
    """Webhooks: signed messages about batches, jobs and workers, to an address of yours."""


@webhook.command()
@click.argument("url")
@click.option(
    "--kind", "kinds", multiple=True, help="What it is told; may be given more than once. All but job.failed."
)
@click.option("--about", "description", default="", metavar="TEXT", help="What it is for.")
def add(url: str, kinds: tuple[str, ...], description: str) -> None:
    """Send messages to an address, and print the secret that signs them. It is shown this once.

    Kinds: batch.started, batch.progress_25, batch.progress_50, batch.progress_75, batch.stalled, batch.paused,
    batch.resumed, batch.completed, batch.failed, batch.cancelled, budget.reached, job.failed, worker.lost.
    """
    secret, made = context.ask(
        lambda app: acting.change(
            app,
            "webhook",
            None,
            lambda conn: app.webhooks.add(url, kinds=kinds or None, description=description, conn=conn),
            made=lambda both: both[1].id,
        )
    )
    output.talk("Webhook {id}: keep its secret now, it is not shown again.", id=made.id)
    output.say(secret)


@webhook.command()
@output.as_json
def list(*, as_json: bool) -> None:
    """List the endpoints, and what waits for them; never their secrets."""
    found = context.ask(lambda app: app.webhooks.all())
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _ENDPOINT, nothing="There is no webhook: 'retoma webhook add' makes one.")


@webhook.command()
@click.argument("id")
def test(id: str) -> None:
    """Send a test message to an endpoint now, from here, and say what it answered."""

    async def tested(app: Retoma) -> Delivery:
        made = await acting.change(app, "webhook", id, lambda conn: app.webhooks.test(id, conn=conn))
        return await app.webhooks.deliver(made)

    found = context.ask(tested)
    if found.state == "delivered":
        output.talk("{id} arrived: the receiver answered {status}.", id=found.id, status=found.status)
    elif not found.attempts:
        output.talk("{id} waits: the webhook is disabled. 'retoma webhook enable' lets it go.", id=found.id)
        raise SystemExit(1)
    else:
        output.talk("{id} did not arrive, and is sent again later. {error}", id=found.id, error=found.error)
        raise SystemExit(1)


@webhook.command()
@click.argument("id")
@click.option(
    "--grace",
    type=params.duration,
    default="1d",
    show_default=True,
    metavar="TIME",
    help="How long messages are signed with the secret of before, too.",
)
def rotate(id: str, grace: timedelta) -> None:
    """Give an endpoint another secret and print it. It is shown this once."""
    secret = context.ask(
        lambda app: acting.change(app, "webhook", id, lambda conn: app.webhooks.rotate(id, grace=grace, conn=conn))
    )
    output.talk("Webhook {id} has another secret: keep it now, it is not shown again.", id=id)
    output.say(secret)


@webhook.command()
@click.argument("id")
def enable(id: str) -> None:
    """Send messages to an endpoint again. What waited is due at once."""
    context.ask(lambda app: acting.change(app, "webhook", id, lambda conn: app.webhooks.enable(id, conn=conn)))
    output.talk("Webhook {id} gets messages again.", id=id)


@webhook.command()
@click.argument("id")
def disable(id: str) -> None:
    """Send nothing to an endpoint until it is enabled. Nothing is written for it meanwhile."""
    context.ask(lambda app: acting.change(app, "webhook", id, lambda conn: app.webhooks.disable(id, conn=conn)))
    output.talk("Webhook {id} gets no messages.", id=id)


@webhook.command()
@click.argument("id")
def remove(id: str) -> None:
    """Remove an endpoint and the log of its deliveries."""
    context.ask(lambda app: acting.change(app, "webhook", id, lambda conn: app.webhooks.remove(id, conn=conn)))
    output.talk("Webhook {id} is removed.", id=id)


@webhook.command()
@click.argument("id", required=False)
@click.option("--state", metavar="WORD", help="pending, delivered or failed.")
@click.option("--limit", type=click.IntRange(1, _LONGEST), default=50, show_default=True, help="At most so many.")
@output.as_json
def deliveries(id: str | None, state: str | None, limit: int, *, as_json: bool) -> None:
    """List messages. Those of one endpoint, or of all, the newest first."""
    found = context.ask(lambda app: app.webhooks.deliveries(id, state=state, limit=limit))
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _DELIVERY, nothing="No message fits.")


@webhook.command()
@click.argument("id")
def replay(id: str) -> None:
    """Deliver a message again, whether it arrived or not. It keeps its webhook-id."""
    context.ask(lambda app: acting.change(app, "delivery", id, lambda conn: app.webhooks.replay(id, conn=conn)))
    output.talk("Message {id} is sent again soon.", id=id)
