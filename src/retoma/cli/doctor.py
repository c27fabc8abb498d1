"""retoma doctor: what is well, what is not, and what to do about it."""

from __future__ import annotations

import asyncio
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from retoma.cli import context, output
from retoma.cli.doctor_findings import Finding, amber, green, red
from retoma.cli.doctor_health import judge
from retoma.cli.doctor_limits import limits, too_few_files
from retoma.cli.language import Phrase, joined, relayed, words
from retoma.cli.schedule import unserved

if TYPE_CHECKING:
    from retoma.access.keys import Key
    from retoma.app.retoma import Retoma
    from retoma.model.job import Schedule
    from retoma.model.upkeep import Overstay
    from retoma.postgres.migrate import SchemaStatus
    from retoma.postgres.roles import Account
    from retoma.system.settings import Settings

__all__ = ["Finding", "amber", "green", "red"]

_BEHIND = 24 * 60 * 60
_MOST_TOLD = 5
_MARKS = {"green": ("✔", "green"), "amber": ("!", "yellow"), "red": ("✖", "red")}


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
