"""retoma audit: who did what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from retoma.cli import context, output, params

if TYPE_CHECKING:
    from datetime import timedelta

    from retoma.app.access.audit import Audited
    from retoma.app.retoma import Retoma


def _what(row: Audited) -> str | None:
    return f"{row.object_kind} {row.object_id or ''}".rstrip() if row.object_kind else None


def _changed(row: Audited) -> str:
    """What is not as it was."""
    before, after = row.before or {}, row.after or {}
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if not before:
        return ", ".join(f"{name}={after[name]}" for name in names if after.get(name) is not None)
    return ", ".join(f"{name}: {before.get(name)} → {after.get(name)}" for name in names)


_ROW: output.Columns[Audited] = {
    "id": lambda row: row.id,
    "at": lambda row: row.at,
    "who": lambda row: row.who,
    "name": lambda row: row.name,
    "address": lambda row: row.address,
    "action": lambda row: row.action,
    "object": _what,
    "outcome": lambda row: row.outcome,
    "times": lambda row: row.times,
    "changed": lambda row: _changed(row) if row.outcome == "done" else "",
    "route": lambda row: row.route,
    "correlation": lambda row: row.correlation_id,
}


@click.group()
def audit() -> None:
    """The audit: every change, every look at content, every refused key. Rows are added, and go by age alone."""


@audit.command()
@click.option("--who", metavar="WHO", help="A key's id or name, account@machine, environment, local or nobody.")
@click.option("--action", metavar="KIND.VERB", help="What was done, such as batch.pause or key.refuse.")
@click.option("--object", "concerned", metavar="KIND[:ID]", help="To what, such as batch:42, or queue.")
@click.option("--outcome", metavar="WORD", help="begun, done, failed, looked or refused.")
@click.option("--since", type=params.duration, metavar="TIME", help="Within the last 24h, 7d, …")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
@click.option("--before", type=click.IntRange(min=1), metavar="ID", help="Only rows before this one.")
@output.as_json
def list(since: timedelta | None, concerned: str | None, *, as_json: bool, **wanted: Any) -> None:
    """List who did what. The newest first."""

    async def look(app: Retoma) -> Any:
        return await app.audit.page(
            object=concerned, since_seconds=None if since is None else since.total_seconds(), **wanted
        )

    found = context.ask(look)
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _ROW, nothing="Nothing was written down that fits.")
