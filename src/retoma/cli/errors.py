"""An error, as the command line tells it: what happened, what to try, and the exit code."""

from __future__ import annotations

import os
import re
import traceback
from contextlib import suppress
from urllib.parse import unquote, urlsplit

from retoma.cli.language import relayed, words
from retoma.cli.output import say
from retoma.errors import DatabaseError, RetomaError

_WORD = re.compile(r"\S+")
_FAILED = 1


def explain(error: Exception, *, debug: bool) -> tuple[str, str, int]:
    """The line that says what happened, the one that says what next, and the exit code."""
    if debug:
        say(without_passwords("".join(traceback.format_exception(error))), err=True, nl=False)
    if isinstance(error, RetomaError):
        return relayed(error.message), relayed(error.next), error.exit_code
    told = " ".join(without_passwords(str(error)).split()) or type(error).__name__
    if type(error).__module__.startswith("psycopg"):
        return (
            words("The database refused or stopped answering: {told}", told=told),
            words("'retoma doctor' looks at the database."),
            DatabaseError.exit_code,
        )
    hint = "" if debug else words("the same as 'retoma --debug …', which shows where it happened.")
    kind = type(error).__name__
    return words("Something unexpected happened: {kind}: {told}", kind=kind, told=told), hint, _FAILED


def without_passwords(text: str) -> str:
    """*text*, with nothing in it that the database's address keeps secret."""
    text = _WORD.sub(_without_password, text)
    for name in ("DATABASE_URL", "RETOMA_DATABASE_URL"):
        with suppress(ValueError):
            password = urlsplit(os.environ.get(name, "")).password
            for form in {password, unquote(password or "")}:
                if form:
                    text = text.replace(form, "…")
    return text


def _without_password(word: re.Match[str]) -> str:
    """A word that is an address loses what stands before its last @, where a password may be."""
    scheme, sign, rest = word[0].partition("://")
    secret, at, place = rest.rpartition("@")
    return f"{scheme}{sign}…@{place}" if at and ":" in secret else word[0]
