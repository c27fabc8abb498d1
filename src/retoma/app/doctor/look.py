"""The doctor looks: at the database, the schema, the account, the workers, the keys, the retention and this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from retoma.app.access.keys import Key
from retoma.app.doctor.facts import Facts, facts
from retoma.app.doctor.findings import Finding, amber, green, red
from retoma.app.doctor.health import judge
from retoma.app.doctor.limits import limits, too_few_files
from retoma.app.doctor.sandbox import sandbox
from retoma.app.extension import Extension, branches_of, installed, load
from retoma.app.retoma import Retoma
from retoma.errors import DatabaseTooOld, RetomaError, SchemaMismatch
from retoma.model.schedule import Schedule
from retoma.model.upkeep import Overstay
from retoma.postgres import migrate
from retoma.postgres.migrate import SchemaStatus
from retoma.postgres.prepare import reach
from retoma.postgres.roles import Account
from retoma.postgres.url import place
from retoma.system.settings import Settings
from retoma.values.phrase import Phrase, joined

_BEHIND = 24 * 60 * 60
_MOST_TOLD = 5


async def examine(settings: Settings) -> list[Finding]:
    """Everything that can be looked at, also where no program could be opened; what stands on something red is left
    out.
    """
    return [*await _examine(settings), await sandbox(settings), *_limits(settings)]


async def look(app: Retoma) -> tuple[list[Finding], Facts | None]:
    """The same for an app that is open, and what is known of its database; nothing, when that cannot be worked with."""
    settings = app.settings
    try:
        findings, account = await _basis(app.database.url, None, settings)
    except Unfit as unfit:
        return unfit.findings, None
    known = await known_of(app)
    seen = [*findings, *await _within(app, account, known, app.extensions)]
    return [*seen, await sandbox(settings), *_limits(settings)], known


class Unfit(Exception):
    """The database cannot be worked with; *findings* say why."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__(findings[-1].seen)
        self.findings = findings


async def _examine(settings: Settings) -> list[Finding]:
    try:
        url, server = await asyncio.to_thread(reach, settings)
    except RetomaError as error:
        return [red("database", error.message, error.next)]
    try:
        findings, account = await _basis(url, server.source if server else None, settings)
        async with Retoma(settings=settings) as app:
            there = await asyncio.to_thread(_there, url, settings)
            return [*findings, *await _within(app, account, await known_of(app), there)]
    except Unfit as unfit:
        return unfit.findings
    finally:
        if server is not None:
            server.release()


async def _basis(url: str, source: str | None, settings: Settings) -> tuple[list[Finding], Account]:
    """What every program stands on: the place, the account and the schema."""
    findings = [_place(url, source, settings)]
    try:
        account = await asyncio.to_thread(migrate.account, url, settings)
        findings.append(_account(account))
        if account.lacks:
            raise Unfit(findings)
        if source is not None:
            await asyncio.to_thread(migrate.upgrade, url, settings)
        status = await asyncio.to_thread(migrate.status, url, settings)
        migrate.require(status)
    except SchemaMismatch as error:
        raise Unfit([*findings, red("schema", error.message, error.next)]) from None
    except DatabaseTooOld as error:
        raise Unfit([red("version", error.message, error.next)]) from None
    except RetomaError as error:
        raise Unfit([red("database", error.message, error.next)]) from None
    return [*findings, _schema(status)], account


async def known_of(app: Retoma) -> Facts:
    """The facts of an app's database, with the path of a job tried."""
    found = await facts(app)
    return found._replace(health=await app.system.tried(found.health))


def _there(url: str, settings: Settings) -> list[Extension]:
    """The installed extensions whose tables are in the database, or that need none."""
    known = installed()
    statuses = migrate.statuses(url, settings, branches_of(known))
    missing = {each.branch.name for each in statuses if each.current is None}
    return [each for each in known if each.name not in missing]


async def _within(app: Retoma, account: Account, known: Facts, extensions: Iterable[Extension]) -> list[Finding]:
    """What an open app shows, with the checks of *extensions*."""
    settings = app.settings
    checks = dict.fromkeys(each.checks for each in extensions if each.checks)
    seen = [*judge(known.health, settings)]
    seen += [finding for check in checks for finding in await load(check)(app)]
    seen += [_retention(known.overstays, settings), *_schedules(known.unserved)]
    keys = None if account.part == "worker" else await app.access.keys()
    return [*seen, *_keys(keys, settings)]


def _place(url: str, source: str | None, settings: Settings) -> Finding:
    if source is not None:
        return green(
            "database", Phrase("embedded in {home}, programs from {source}", home=settings.home, source=source)
        )
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
