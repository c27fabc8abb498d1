"""retoma doctor: what is well, what is not, and what to do about it."""

from __future__ import annotations

import asyncio
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from retoma.cli import context, output
from retoma.cli.doctor_limits import limits, too_few_files
from retoma.cli.schedule import unserved

if TYPE_CHECKING:
    from retoma.access.keys import Key
    from retoma.app.retoma import Retoma
    from retoma.model.job import Health, Schedule
    from retoma.model.upkeep import Overstay
    from retoma.postgres.roles import Account
    from retoma.system.settings import Settings

_LONG_TRANSACTION = 5 * 60
_VERY_LONG_TRANSACTION = 60 * 60
_OLD_SNAPSHOT = 1_000_000
_MANY_DEAD = 10_000
_SLOW_ECHO = 0.5
_LATE = 5 * 60
_BEHIND = 24 * 60 * 60
_MOST_TOLD = 5
_MARKS = {"green": ("✔", "green"), "amber": ("!", "yellow"), "red": ("✖", "red")}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: green, amber or red, what was seen, and the fix."""

    level: str
    what: str
    seen: str
    next: str = ""


def green(what: str, seen: str) -> Finding:
    return Finding("green", what, seen)


def amber(what: str, seen: str, next: str) -> Finding:
    return Finding("amber", what, seen, next)


def red(what: str, seen: str, next: str) -> Finding:
    return Finding("red", what, seen, next)


@click.command()
@output.as_json
def doctor(*, as_json: bool) -> None:
    """Check the database, the schema and the workers: green, amber or red, with the fix.

    The exit code is 1 when something is red.
    """
    settings = context.settings()
    findings = [*asyncio.run(_examine(settings)), asyncio.run(_sandbox(settings)), *_limits(settings)]
    if as_json:
        output.print_json(findings)
    elif output.in_terminal():
        _draw(findings)
    else:
        columns = {name: _field(name) for name in ("level", "what", "seen", "next")}
        output.table(findings, columns, nothing="")
    click.get_current_context().exit(int(any(finding.level == "red" for finding in findings)))


def _limits(settings: Settings) -> Iterator[Finding]:
    for what, seen in limits(settings):
        yield green(what, seen)
    if (files := too_few_files(settings)) is not None:
        yield amber(
            "open files",
            f"a process may open {files:,}, and a server with {settings.web_connections:,} connections needs "
            f"{settings.web_files:,}: it lets in fewer",
            f"raise the limit of open files (ulimit -n, LimitNOFILE=) to {settings.web_files}, or lower "
            "RETOMA_WEB_CONNECTIONS.",
        )


def _field(name: str) -> output.Reader[Finding]:
    return lambda finding: getattr(finding, name)


def _draw(findings: list[Finding]) -> None:
    room = shutil.get_terminal_size().columns - 2
    width = max(len(finding.what) for finding in findings) + 2
    for finding in findings:
        mark, colour = _MARKS[finding.level]
        seen = textwrap.fill(f"{finding.what:<{width}}{finding.seen}", room, subsequent_indent=" " * (width + 2))
        output.say((mark, {"fg": colour, "bold": True}), f" {seen}")
        if finding.next:
            indent = " " * (width + 2)
            fix = textwrap.fill(f"Try: {finding.next}", room, initial_indent=indent, subsequent_indent=indent)
            output.say(fix, fg=colour)


async def _examine(settings: Settings) -> list[Finding]:
    """Everything that can be looked at; what stands on something red is left out."""
    from retoma.app.retoma import Retoma
    from retoma.errors import DatabaseTooOld, RetomaError, SchemaMismatch
    from retoma.postgres import migrate
    from retoma.postgres.prepare import reach

    try:
        url, server = await asyncio.to_thread(reach, settings)
    except RetomaError as error:
        return [red("database", error.message, error.next)]
    try:
        findings = [_place(url, server.source if server else None, settings)]
        try:
            account = await asyncio.to_thread(migrate.account, url, settings)
            findings.append(_account(account))
            if account.lacks:
                return findings
            if server is not None:
                await asyncio.to_thread(migrate.upgrade, url, settings)
            status = await asyncio.to_thread(migrate.status, url, settings)
            migrate.require(status)
        except SchemaMismatch as error:
            return [*findings, red("schema", error.message, error.next)]
        except DatabaseTooOld as error:
            return [red("version", error.message, error.next)]
        except RetomaError as error:
            return [red("database", error.message, error.next)]
        needs = (
            f"newer than this version needs ({status.head}), and serves it" if status.newer else "as this version needs"
        )
        findings.append(green("schema", f"revision {status.current}, {needs}"))
        async with Retoma(settings=settings) as app:
            seen = [*findings, *judge(await app.system.health(), settings), *await _extensions(app)]
            seen += [_retention(await app.system.overstays(), settings), *_schedules(await unserved(app))]
            keys = None if account.part == "worker" else await app.access.keys()
            return [*seen, *_keys(keys, settings)]
    finally:
        if server is not None:
            server.release()


async def _extensions(app: Retoma) -> list[Finding]:
    """What the installed extensions find."""
    from retoma.app.extension import installed, load

    checks = dict.fromkeys(each.checks for each in installed() if each.checks)
    return [finding for check in checks for finding in await load(check)(app)]


async def _sandbox(settings: Settings) -> Finding:
    """What shuts isolated functions in, as a child found that tried to get out."""
    from retoma.errors import RetomaError
    from retoma.isolate import adopt
    from retoma.isolate.layers import REQUIRED, Layer
    from retoma.isolate.probe import lacking, told_of

    if settings.sandbox == "off":
        return amber("sandbox", "switched off: isolated functions run as free as their worker", "RETOMA_SANDBOX=auto")
    adopt(settings)
    try:
        found = await lacking()
    except RetomaError as error:
        return red("sandbox", error.message, error.next)
    holds = ", ".join(layer for layer in Layer if layer not in found)
    if set(found) & set(REQUIRED):
        judged = red if settings.sandbox == "require" else amber
        fix = "a kernel with Landlock and seccomp, in a container that allows both; docs/guides/isolate.md has a table."
        return judged("sandbox", f"missing: {told_of(found)}; held: {holds or 'none'}", fix)
    rest = f"; not here: {told_of(found)}" if found else ""
    return green("sandbox", f"isolated functions are shut in: {holds}{rest}")


def _place(url: str, source: str | None, settings: Settings) -> Finding:
    if source is not None:
        return green("database", f"embedded in {settings.home}, programs from {source}")
    from retoma.postgres.url import place

    return green("database", f"{place(url)} answers")


def _account(found: Account) -> Finding:
    """As whom programs with these settings sign in."""
    if found.superuser:
        return amber(
            "account",
            f"{found.name} is a superuser: who has its password has the whole server",
            "retoma db roles --apply --urls FOLDER, then the address of its part for each process.",
        )
    if found.lacks:
        return red(
            "account",
            f"{found.name} has not the rights of {found.part}: it lacks {_some(found.lacks)}",
            "as the owner of the tables or a superuser: retoma db roles --apply.",
        )
    if found.exceeds:
        return amber(
            "account",
            f"{found.name} may do more than {found.part} needs: {_some(found.exceeds)}",
            "when no program of an older version is left: retoma db roles --apply.",
        )
    if found.owns:
        return green("account", f"{found.name} owns the tables, and is no superuser")
    return green("account", f"{found.name} " + (f"has the rights of {found.part}" if found.part else "is no superuser"))


def _some(told: Sequence[str]) -> str:
    more = f" and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
    return "; ".join(told[:_MOST_TOLD]) + more


def judge(health: Health, settings: Settings) -> Iterator[Finding]:
    """What the figures of a database mean."""
    if health.standby:
        yield red("version", f"PostgreSQL {health.version}, a read-only standby", "point DATABASE_URL at the primary.")
    else:
        yield green("version", f"PostgreSQL {health.version}")
    yield _durable(health)
    yield _connections(health)
    yield _hints(health, settings)
    yield _transactions(health)
    yield _dead_rows(health)
    yield from _work(health)


def _retention(found: Sequence[Overstay], settings: Settings) -> Finding:
    late = [each for each in found if each.seconds > _BEHIND]
    if late:
        told = ", ".join(f"{each.kind} ({each.seconds / _BEHIND:.1f} days)" for each in late)
        return amber(
            "retention",
            f"there past their {settings.retention_days:g} days: {told}",
            "retoma prune; if that is so again tomorrow, see 'retoma job list --pipeline retoma.prune' for why.",
        )
    return green("retention", f"nothing is kept for longer than {settings.retention_days:g} days")


def _keys(found: Sequence[Key] | None, settings: Settings) -> Iterator[Finding]:
    """Who may come in over HTTP."""
    if found is None:
        yield green("keys", "a worker may not see them")
        return
    usable = [key for key in found if key.usable]
    if not found and settings.api_key is None:
        if settings.token == "off":  # noqa: S105 - not a secret
            yield amber(
                "keys",
                "none, and RETOMA_TOKEN is off: a server lets in all on this machine, and all that a proxy lets by",
                "retoma key create, or take RETOMA_TOKEN=off away.",
            )
        else:
            yield green("keys", "none: callers need the token of this machine ('retoma token')")
        return
    for key in usable:
        if key.ends_soon and key.expires_at is not None:
            yield amber(
                "keys", f"{key.id} ({key.name}) expires on {key.expires_at:%Y-%m-%d}", f"retoma key rotate {key.id}"
            )
    endless = [key.id for key in usable if key.expires_at is None]
    told = f"; {len(endless)} never expire: {', '.join(endless[:5])}" if endless else ""
    yield green("keys", f"{len(usable)} of {len(found)} open" + told)


def _schedules(lost: Sequence[Schedule]) -> Iterator[Finding]:
    if lost:
        told = ", ".join(f"{each.name} (pipeline {each.pipeline})" for each in lost)
        yield amber(
            "schedules",
            f"no worker serves {told}: their jobs wait",
            f"start a worker whose program has it, or 'retoma schedule remove {lost[0].name}'.",
        )


def _durable(health: Health) -> Finding:
    off = [name for name in ("fsync", "full_page_writes") if not getattr(health, name)]
    if off:
        return red("durability", f"{' and '.join(off)} off: a crash may corrupt the database", "switch it on.")
    if health.synchronous_commit == "off":
        return red(
            "durability",
            "synchronous_commit is off: a crash of the server may lose jobs and checkpoints that were acknowledged",
            "alter database … set synchronous_commit = on;",
        )
    return green("durability", f"fsync on, synchronous_commit {health.synchronous_commit}")


def _connections(health: Health) -> Finding:
    seen = f"{health.connections} of {health.most_connections} in use"
    if health.connections > 0.9 * health.most_connections:
        return amber("connections", seen, "raise max_connections, or put PgBouncer in front.")
    return green("connections", seen)


def _hints(health: Health, settings: Settings) -> Finding:
    poll = f"every {settings.poll_seconds:g} s"
    if settings.pooler == "transaction":
        return green("hints", f"none through a transaction pooler; workers look {poll}")
    if health.echo_seconds is None:
        return amber(
            "hints",
            f"LISTEN/NOTIFY does not arrive; workers look {poll} instead",
            "if a pooler in transaction mode stands in between, set RETOMA_POOLER=transaction.",
        )
    seen = f"LISTEN/NOTIFY came back in {health.echo_seconds * 1000:.1f} ms"
    if health.echo_seconds > _SLOW_ECHO:
        return amber("hints", seen, "look at the load of the server, and at the network.")
    return green("hints", seen)


def _transactions(health: Health) -> Finding:
    seconds = health.transaction_seconds or 0.0
    who = f"process {health.transaction_pid} ({health.transaction_name or 'no name'})"
    end = f"find out what it does; select pg_terminate_backend({health.transaction_pid}) ends it."
    if seconds > _VERY_LONG_TRANSACTION:
        return red("transactions", f"one is open for {seconds / 3600:.1f} h: {who}; nothing it saw can be cleaned", end)
    if seconds > _LONG_TRANSACTION:
        return amber("transactions", f"one is open for {seconds / 60:.0f} min: {who}", end)
    if health.snapshot_age > _OLD_SNAPSHOT:
        return amber(
            "transactions",
            f"the oldest snapshot is {health.snapshot_age:,} transactions old; dead rows pile up behind it",
            "look in pg_replication_slots, pg_prepared_xacts and pg_stat_activity for who holds it.",
        )
    return green("transactions", f"the oldest is {seconds:.0f} s old, its snapshot {health.snapshot_age:,} behind")


def _dead_rows(health: Health) -> Finding:
    seen = f"{health.live_rows:,} live and {health.dead_rows:,} dead"
    if not health.autovacuum:
        return red("rows of jobs", f"{seen}; autovacuum is off", "switch autovacuum on.")
    if health.dead_rows > _MANY_DEAD and health.dead_rows > health.live_rows:
        return amber("rows of jobs", seen, "vacuum retoma.jobs; and look for what holds an old snapshot.")
    return green("rows of jobs", seen)


def _work(health: Health) -> Iterator[Finding]:
    late = health.oldest_due_seconds or 0.0
    waits = f"; the oldest job that could run waits for {late:.0f} s" if late else ""
    seen = f"executors alive: {health.workers_alive}{waits}"
    if health.workers_alive == 0:
        yield amber("workers", f"nobody works{waits}", "retoma worker --app myapp:app")
    elif late > _LATE:
        yield amber("workers", seen, "start more workers, or see 'retoma queue list' for what nobody serves.")
    else:
        yield green("workers", seen)
    if health.workers_silent:
        yield amber(
            "silence",
            f"{health.workers_silent} fell silent",
            "any worker recovers their jobs within seconds.",
        )
    if health.queues_paused:
        yield amber("queues", f"{health.queues_paused} paused", "'retoma queue list' says why; 'retoma queue resume'.")
    if health.failed_jobs:
        yield amber("dead letters", f"{health.failed_jobs:,} failed", "retoma job list --state failed")
