"""retoma alert: what the watchdog thinks a person should know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from retoma.cli import acting, context, output
from retoma.cli.language import Phrase, language

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.model.alert import Alert


def _what(alert: Alert) -> str:
    from retoma.model.alert import sentence

    return sentence(alert.rule, alert.facts, "pt" if language() == "pt" else "en")


_STATES = {
    "open": Phrase("open"),
    "acknowledged": Phrase("acknowledged"),
    "resolved": Phrase("resolved"),
}
_ALERT: output.Columns[Alert] = {
    "id": lambda alert: alert.id,
    "severity": lambda alert: alert.severity,
    "state": lambda alert: _STATES[alert.state],
    "since": lambda alert: alert.opened_at,
    "what": _what,
    "by": lambda alert: alert.acknowledged_by,
    "sent": lambda alert: ", ".join(alert.sent) or None,
}


@click.group()
def alert() -> None:
    """Alerts: what the watchdog found wrong; acknowledge it. RETOMA_ALERT_ settings say where they are sent."""


@alert.command()
@click.option("--all", "everything", is_flag=True, help="Also those that are over.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, metavar="N", help="At most N.")
@output.as_json
def list(limit: int, *, everything: bool, as_json: bool) -> None:
    """List the alerts, the newest first."""
    found = context.ask(lambda app: app.system.alerts(open=not everything, limit=limit))
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _ALERT, nothing="No alert is open.")


@alert.command()
@click.argument("id", type=int)
@click.option("--note", metavar="TEXT", help="What you do about it, for those who wonder later.")
def ack(id: int, note: str | None) -> None:
    """Say that you look after an alert. Who was first stays."""

    async def ask(app: Retoma) -> Alert:
        await app.system.alert(id)
        return await acting.change(
            app,
            "alert",
            id,
            lambda conn: app.system.acknowledge(id, by=acting.person(), note=note, conn=conn),
            noted={"note": note} if note else None,
        )

    now = context.ask(ask)
    output.talk("Alert {id} is acknowledged by {by}.", id=id, by=now.acknowledged_by)
