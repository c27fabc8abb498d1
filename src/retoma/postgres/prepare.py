"""Finds the database of an app, and upgrades its schema to the revision that the code expects."""

from __future__ import annotations

from collections.abc import Sequence

from retoma.postgres import migrate
from retoma.postgres.embedded import server as embedded_server
from retoma.system.settings import Settings


def reach(settings: Settings) -> tuple[str, embedded_server.Embedded | None]:
    """The URL of the database: the configured one, or that of the embedded server, which is started."""
    if settings.database_url:
        return settings.database_url, None
    server = embedded_server.ensure(settings.home)
    return server.url, server


def prepare(
    settings: Settings, *, upgrade: bool | None, branches: Sequence[migrate.Branch] = (migrate.ENGINE,)
) -> tuple[str, embedded_server.Embedded | None]:
    """The URL of a database with the right tables.

    The embedded database is upgraded automatically; a configured one only on request.
    """
    url, server = reach(settings)
    try:
        now = migrate.statuses(url, settings, branches)
        if not all(each.ready for each in now) and (upgrade or (upgrade is None and server is not None)):
            migrate.upgrade(url, settings, branches=branches)
            now = migrate.statuses(url, settings, branches)
        for each in now:
            migrate.require(each)
    except BaseException:
        if server is not None:
            server.release()
        raise
    return url, server
