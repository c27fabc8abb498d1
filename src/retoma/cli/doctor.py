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
from retoma.cli.language import Phrase, joined, relayed, words
from retoma.cli.schedule import unserved

if TYPE_CHECKING:
    from retoma.access.keys import Key
    from retoma.app.retoma import Retoma
    from retoma.model.job import Health, Schedule
    from retoma.model.upkeep import Overstay
    from retoma.postgres.migrate import SchemaStatus
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
            Phrase(
                "a process may open {files:,}, and a server with {connections:,} connections needs {needed:,}: "
                "it lets in fewer",
                files=files,
                connections=settings.web_connections,
                needed=settings.web_files,
            ),
            Phrase(
                "raise the limit of open files (ulimit -n, LimitNOFILE=) to {needed}, or lower RETOMA_WEB_CONNECTIONS.",
                needed=settings.web_files,
            ),
        )


def _field(name: str) -> output.Reader[Finding]:
    return lambda finding: getattr(finding, name)


def _draw(findings: list[Finding]) -> None:
    room = shutil.get_terminal_size().columns - 2
    names = [words(finding.what) for finding in findings]
    width = max(map(len, names)) + 2
    for finding, name in zip(findings, names, strict=True):
        mark, colour = _MARKS[finding.level]
        seen = textwrap.fill(f"{name:<{width}}{relayed(finding.seen)}", room, subsequent_indent=" " * (width + 2))
        output.say((mark, {"fg": colour, "bold": True}), f" {seen}")
        if finding.next:
            indent = " " * (width + 2)
            told = words("Try: {next}", next=relayed(finding.next))
            fix = textwrap.fill(told, room, initial_indent=indent, subsequent_indent=indent)
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
        findings.append(_schema(status))
        async with Retoma(settings=settings) as app:
            seen = [*findings, *judge(await app.system.health(), settings), *await _extensions(app)]
            seen += [_retention(await app.system.overstays(), settings), *_schedules(await unserved(app))]
            keys = None if account.part == "worker" else await app.access.keys()
            return [*seen, *_keys(keys, settings)]
    finally:
        if server is not None:
            server.release()


def _schema(found: SchemaStatus) -> Finding:
    if found.newer:
        return green(
            "schema",
            Phrase(
                "revision {current}, newer than this version needs ({head}), and serves it",
                current=found.current,
                head=found.head,
            ),
        )
    return green("schema", Phrase("revision {current}, as this version needs", current=found.current))


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
    from retoma.isolate.probe import lacking

    if settings.sandbox == "off":
        return amber("sandbox", "switched off: isolated functions run as free as their worker", "RETOMA_SANDBOX=auto")
    adopt(settings)
    try:
        found = await lacking()
    except RetomaError as error:
        return red("sandbox", error.message, error.next)
    holds = joined(Phrase(layer) for layer in Layer if layer not in found)
    lacks = joined(Phrase("{layer} ({why})", layer=Phrase(layer), why=relayed(why)) for layer, why in found.items())
    if set(found) & set(REQUIRED):
        judged = red if settings.sandbox == "require" else amber
        fix = Phrase(
            "a kernel with Landlock and seccomp, in a container that allows both; docs/guides/isolate.md has a table."
        )
        return judged(
            "sandbox",
            Phrase("missing: {found}; held: {holds}", found=lacks, holds=holds or Phrase("none")),
            fix,
        )
    if found:
        return green(
            "sandbox",
            Phrase("isolated functions are shut in: {holds}; not here: {found}", holds=holds, found=lacks),
        )
    return green("sandbox", Phrase("isolated functions are shut in: {holds}", holds=holds))


def _place(url: str, source: str | None, settings: Settings) -> Finding:
    if source is not None:
        return green(
            "database", Phrase("embedded in {home}, programs from {source}", home=settings.home, source=source)
        )
    from retoma.postgres.url import place

    return green("database", Phrase("{place} answers", place=place(url)))


def _account(found: Account) -> Finding:
    """As whom programs with these settings sign in."""
    if found.superuser:
        return amber(
            "account",
            Phrase("{name} is a superuser: who has its password has the whole server", name=found.name),
            "retoma db roles --apply --urls FOLDER, then the address of its part for each process.",
        )
    if found.lacks:
        return red(
            "account",
            Phrase(
                "{name} has not the rights of {part}: it lacks {some}",
                name=found.name,
                part=found.part,
                some=_some(found.lacks),
            ),
            "as the owner of the tables or a superuser: retoma db roles --apply.",
        )
    if found.exceeds:
        return amber(
            "account",
            Phrase(
                "{name} may do more than {part} needs: {some}",
                name=found.name,
                part=found.part,
                some=_some(found.exceeds),
            ),
            "when no program of an older version is left: retoma db roles --apply.",
        )
    if found.owns:
        return green("account", Phrase("{name} owns the tables, and is no superuser", name=found.name))
    if found.part:
        return green("account", Phrase("{name} has the rights of {part}", name=found.name, part=found.part))
    return green("account", Phrase("{name} is no superuser", name=found.name))


def _some(told: Sequence[str]) -> str:
    some = "; ".join(told[:_MOST_TOLD])
    more = len(told) - _MOST_TOLD
    return Phrase("{some} and {more} more", some=some, more=more) if more > 0 else some


def judge(health: Health, settings: Settings) -> Iterator[Finding]:
    """What the figures of a database mean."""
    if health.standby:
        yield red(
            "version",
            Phrase("PostgreSQL {version}, a read-only standby", version=health.version),
            "point DATABASE_URL at the primary.",
        )
    else:
        yield green("version", Phrase("PostgreSQL {version}", version=health.version))
    yield _durable(health)
    yield _connections(health)
    yield _hints(health, settings)
    yield _transactions(health)
    yield _dead_rows(health)
    yield from _work(health)


def _retention(found: Sequence[Overstay], settings: Settings) -> Finding:
    late = [each for each in found if each.seconds > _BEHIND]
    if late:
        told = joined(Phrase("{kind} ({days:.1f} days)", kind=each.kind, days=each.seconds / _BEHIND) for each in late)
        return amber(
            "retention",
            Phrase("there past their {days:g} days: {told}", days=settings.retention_days, told=told),
            "retoma prune; if that is so again tomorrow, see 'retoma job list --pipeline retoma.prune' for why.",
        )
    return green(
        "retention",
        Phrase("nothing is kept for longer than {days:g} days", days=settings.retention_days),
    )


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
                "keys",
                Phrase(
                    "{id} ({name}) expires on {day:%Y-%m-%d}",
                    id=key.id,
                    name=key.name,
                    day=key.expires_at,
                ),
                f"retoma key rotate {key.id}",
            )
    endless = [key.id for key in usable if key.expires_at is None]
    if endless:
        some = ", ".join(endless[:5])
        yield green(
            "keys",
            Phrase(
                "{usable} of {keys} open; {endless} never expire: {some}",
                usable=len(usable),
                keys=len(found),
                endless=len(endless),
                some=some,
            ),
        )
    else:
        yield green("keys", Phrase("{usable} of {keys} open", usable=len(usable), keys=len(found)))


def _schedules(lost: Sequence[Schedule]) -> Iterator[Finding]:
    if lost:
        told = ", ".join(f"{each.name} (pipeline {each.pipeline})" for each in lost)
        yield amber(
            "schedules",
            Phrase("no worker serves {told}: their jobs wait", told=told),
            Phrase("start a worker whose program has it, or 'retoma schedule remove {name}'.", name=lost[0].name),
        )


def _durable(health: Health) -> Finding:
    off = [name for name in ("fsync", "full_page_writes") if not getattr(health, name)]
    if off:
        return red(
            "durability",
            Phrase("{names} off: a crash may corrupt the database", names=joined(off, Phrase(" and "))),
            "switch it on.",
        )
    if health.synchronous_commit == "off":
        return red(
            "durability",
            "synchronous_commit is off: a crash of the server may lose jobs and checkpoints that were acknowledged",
            "alter database … set synchronous_commit = on;",
        )
    return green(
        "durability",
        Phrase("fsync on, synchronous_commit {level}", level=health.synchronous_commit),
    )


def _connections(health: Health) -> Finding:
    seen = Phrase("{used} of {most} in use", used=health.connections, most=health.most_connections)
    if health.connections > 0.9 * health.most_connections:
        return amber("connections", seen, "raise max_connections, or put PgBouncer in front.")
    return green("connections", seen)


def _hints(health: Health, settings: Settings) -> Finding:
    poll = settings.poll_seconds
    if settings.pooler == "transaction":
        return green("hints", Phrase("none through a transaction pooler; workers look every {poll:g} s", poll=poll))
    if health.echo_seconds is None:
        return amber(
            "hints",
            Phrase("LISTEN/NOTIFY does not arrive; workers look every {poll:g} s instead", poll=poll),
            "if a pooler in transaction mode stands in between, set RETOMA_POOLER=transaction.",
        )
    seen = Phrase("LISTEN/NOTIFY came back in {ms:.1f} ms", ms=health.echo_seconds * 1000)
    if health.echo_seconds > _SLOW_ECHO:
        return amber("hints", seen, "look at the load of the server, and at the network.")
    return green("hints", seen)


def _transactions(health: Health) -> Finding:
    seconds = health.transaction_seconds or 0.0
    pid, name = health.transaction_pid, health.transaction_name or Phrase("no name")
    who = Phrase("process {pid} ({name})", pid=pid, name=name)
    end = Phrase("find out what it does; select pg_terminate_backend({pid}) ends it.", pid=pid)
    if seconds > _VERY_LONG_TRANSACTION:
        return red(
            "transactions",
            Phrase(
                "one is open for {hours:.1f} h: {who}; nothing it saw can be cleaned", hours=seconds / 3600, who=who
            ),
            end,
        )
    if seconds > _LONG_TRANSACTION:
        return amber(
            "transactions", Phrase("one is open for {minutes:.0f} min: {who}", minutes=seconds / 60, who=who), end
        )
    if health.snapshot_age > _OLD_SNAPSHOT:
        return amber(
            "transactions",
            Phrase(
                "the oldest snapshot is {age:,} transactions old; dead rows pile up behind it",
                age=health.snapshot_age,
            ),
            "look in pg_replication_slots, pg_prepared_xacts and pg_stat_activity for who holds it.",
        )
    return green(
        "transactions",
        Phrase(
            "the oldest is {seconds:.0f} s old, its snapshot {age:,} behind",
            seconds=seconds,
            age=health.snapshot_age,
        ),
    )


def _dead_rows(health: Health) -> Finding:
    seen = Phrase("{live:,} live and {dead:,} dead", live=health.live_rows, dead=health.dead_rows)
    if not health.autovacuum:
        return red("rows of jobs", Phrase("{seen}; autovacuum is off", seen=seen), "switch autovacuum on.")
    if health.dead_rows > _MANY_DEAD and health.dead_rows > health.live_rows:
        return amber("rows of jobs", seen, "vacuum retoma.jobs; and look for what holds an old snapshot.")
    return green("rows of jobs", seen)


def _work(health: Health) -> Iterator[Finding]:
    late = health.oldest_due_seconds or 0.0
    waits = Phrase("; the oldest job that could run waits for {late:.0f} s", late=late) if late else ""
    seen = Phrase("executors alive: {alive}{waits}", alive=health.workers_alive, waits=waits)
    if health.workers_alive == 0:
        yield amber("workers", Phrase("nobody works{waits}", waits=waits), "retoma worker --app myapp:app")
    elif late > _LATE:
        yield amber("workers", seen, "start more workers, or see 'retoma queue list' for what nobody serves.")
    else:
        yield green("workers", seen)
    if health.workers_silent:
        yield amber(
            "silence",
            Phrase("{silent} fell silent", silent=health.workers_silent),
            "any worker recovers their jobs within seconds.",
        )
    if health.queues_paused:
        yield amber(
            "queues",
            Phrase("{paused} paused", paused=health.queues_paused),
            "'retoma queue list' says why; 'retoma queue resume'.",
        )
    if health.failed_jobs:
        yield amber(
            "dead letters",
            Phrase("{failed:,} failed", failed=health.failed_jobs),
            "retoma job list --state failed",
        )
