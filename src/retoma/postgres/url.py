"""Database URLs: validated for use, and shortened for display."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from retoma.errors import DatabaseError, DatabaseUnreachable


def place(url: str) -> str:
    """The host and database of *url*, without user and password: safe to print."""
    try:
        found = conninfo_to_dict(checked(url))
    except DatabaseError:
        return "(an address that cannot be read)"
    hosts = str(found.get("host") or "localhost").split(",")
    ports = str(found.get("port") or "").split(",")
    ports = ports if len(ports) == len(hosts) else ports * len(hosts)  # one port may apply to all hosts
    where = ",".join(f"{host}:{port or 5432}" for host, port in zip(hosts, ports, strict=False))
    return f"{where}/{found['dbname']}" if "dbname" in found else where


def checked(url: str) -> str:
    """*url* itself, if it is a valid PostgreSQL URL; the error never repeats its parts."""
    wrong = "The database URL cannot be read (it is not shown here, for it may hold a password)"
    right = "It should look like postgresql://user:password@host:5432/database, with % written as %25."
    if not re.match(r"^postgres(ql)?://", url):
        raise DatabaseError(f"{wrong}: it does not begin with postgresql://.", next=right)
    malformed = DatabaseError(f"{wrong}: a host, a port or an option is malformed.", next=right)
    try:
        parts = urlsplit(url)
    except ValueError:
        raise malformed from None
    if "@" in parts.path + parts.query + parts.fragment:
        # A password with a / or a # ends up there, and would be printed as part of the place.
        raise DatabaseError(
            f"{wrong}: an @ stands behind the host.",
            next="It should look like postgresql://user:password@host:5432/database, with / # ? @ written as "
            "%2F %23 %3F %40.",
        )
    if _stray_percent(parts.username):
        raise DatabaseError(f"{wrong}: a % in the user is not followed by two hexadecimal digits.", next=right)
    if _stray_percent(parts.password):
        raise DatabaseError(f"{wrong}: a % in the password is not followed by two hexadecimal digits.", next=right)
    try:
        ports = conninfo_to_dict(url).get("port") or ""  # a URL may name several hosts, for a failover
    except psycopg.ProgrammingError:
        raise malformed from None
    if not re.fullmatch(r"(\d{0,5},)*\d{0,5}", str(ports), re.ASCII):
        raise malformed
    return url


def _stray_percent(text: str | None) -> bool:
    return re.search(r"%(?![0-9A-Fa-f]{2})", text or "") is not None


def explain_connection(url: str, error: Exception) -> DatabaseUnreachable:
    """The error for a failed connection, with the host and without the password."""
    text = " ".join(str(error).split())
    password = urlsplit(url).password
    if password:
        text = text.replace(unquote(password), "…").replace(password, "…")
    if "unsupported startup parameter" in text and "options" in text:
        return DatabaseUnreachable(
            f"The PgBouncer at {place(url)} refuses the time-outs that a connection asks for at its start "
            "(unsupported startup parameter: options).",
            next="In session mode write 'ignore_startup_parameters = options' into its configuration, and set the "
            "time-outs, which it then drops, with 'alter role'; in transaction mode set RETOMA_POOLER=transaction. "
            "See PgBouncer in docs/operate/index.md.",
        )
    return DatabaseUnreachable(
        f"The database at {place(url)} cannot be reached: {text[:300].rstrip('.?! ')}.",
        next="Is the server running, and are user, password and database right? DATABASE_URL decides; "
        "without it an embedded server is used.",
    )
