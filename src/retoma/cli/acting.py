"""What a command changes is written down with it, and what content it shows before it is shown: who did it on which
machine, with which command, to what. A server that is asked writes it down itself.
"""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from retoma.cli.output import talk
from retoma.cli.remote import Remote

if TYPE_CHECKING:
    from retoma.app.access.audit import Entry
    from retoma.app.retoma import Retoma
    from retoma.system.settings import Settings

T = TypeVar("T")


def person() -> str:
    """Who runs the command: the account, and the machine."""
    try:
        name = getpass.getuser()
    except (ImportError, KeyError, OSError):  # an account without a name, as in some containers
        import os

        name = f"uid-{os.getuid()}" if hasattr(os, "getuid") else "nameless"
    return f"{name}@{socket.gethostname()}"[:200]


def entry_of(kind: str, id: object = None, *, noted: Mapping[str, Any] | None = None) -> Entry:
    """What the audit says of the command that runs now, when it has done its work."""
    from retoma.app.access.audit import Entry, as_noted

    context = click.get_current_context()
    verb = (context.command.name or "").replace("_", "-").partition("-")[0]
    return Entry(
        who=person(),
        via="cli",
        route=context.command_path,
        action=f"{kind}.{verb}",
        object_kind=kind,
        object_id=None if id is None else str(id),
        after=as_noted(noted or {}),
        outcome="done",
    )


async def change(
    app: Retoma,
    kind: str,
    id: object,
    act: Callable[[object], Awaitable[T]],
    *,
    made: Callable[[T], object] | None = None,
    noted: Mapping[str, Any] | None = None,
) -> T:
    """What *act* gives, done in one transaction with its row; *made* tells the id of what came into being by it."""
    if isinstance(app, Remote):
        return await act(None)
    from retoma.app.access.audit import tell

    entry = entry_of(kind, id, noted=noted)
    async with app.transaction() as conn:
        before = await app.audit.standing(kind, entry.object_id, conn=conn)
        result = await act(conn)
        entry = replace(entry, before=before, object_id=str(made(result)) if made else entry.object_id)
        await app.audit.write(entry, conn=conn)
    tell(entry)
    return result


async def beside(app: Retoma, kind: str, id: object, act: Awaitable[T], *, noted: Mapping[str, Any] | None = None) -> T:
    """What *act* gives, which is not one transaction: that it begins is written down before, how it ended after."""
    if isinstance(app, Remote):
        return await act
    from retoma.app.access.audit import tell

    entry = entry_of(kind, id, noted=noted)
    before = await app.audit.standing(kind, entry.object_id)
    entry = replace(entry, before=before)
    await app.audit.write(replace(entry, outcome="begun"))
    try:
        result = await act
    except Exception:
        entry = replace(entry, outcome="failed")
        raise
    finally:
        await app.audit.write(entry)
        tell(entry)
    return result


async def look(app: Retoma, kind: str, id: object = None) -> None:
    """Write down that content is about to be shown. Where this account or this server writes nothing, it is shown and
    that is said: whoever reads the tables can read it anyway, and a sick server must be looked at.
    """
    if isinstance(app, Remote):
        return
    from psycopg import errors

    from retoma.app.access.audit import tell

    entry = replace(entry_of(kind, id), outcome="looked")
    try:
        await app.audit.write(entry)
    except (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege) as error:
        talk("This look is not in the audit: {error}.", error=str(error).partition(chr(10))[0])
    tell(entry)


async def shown(app: Retoma, kind: str, id: object, found: Awaitable[T]) -> T:
    """What *found* gives, once it is written down that it is shown."""
    result = await found
    await look(app, kind, id)
    return result


def note(
    settings: Settings, kind: str, id: object, *, noted: Mapping[str, Any] | None = None, outcome: str = "done"
) -> None:
    """Write down what was done without an app."""
    from retoma.app.retoma import Retoma

    entry = replace(entry_of(kind, id, noted=noted), outcome=outcome)

    async def written() -> None:
        async with Retoma(settings=settings) as app:
            await app.audit.write(entry)

    asyncio.run(written())
