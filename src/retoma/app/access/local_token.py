"""The token of a server without keys: a file that only its owner can read, and links that open one session each.

A caller who can read the file is its owner on this machine; a caller who merely reaches the port, through a proxy or a
tunnel, is not. The token stays until somebody deletes the file; then every session opened with it ends.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import time
from contextlib import suppress
from pathlib import Path

from retoma.errors import ConfigurationError
from retoma.postgres.embedded.initdb import folder

NAME = "token"
_SHAPE = re.compile(r"rtl_[A-Za-z0-9_-]{43}")
_LINK = re.compile(r"([0-9]{1,12})-([0-9a-f]{16})-([0-9a-f]{64})")
_LONGEST = 1000
_OTHERS = 0o077


def token_of(home: Path) -> str:
    """The token in *home*, created if there is none."""
    place = home.expanduser() / NAME
    try:
        return _read(place)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _unfit(place, error) from None
    try:
        folder(home)
        return _make(place)
    except OSError as error:
        raise _unfit(place, error) from None


def known(home: Path) -> str | None:
    """The token in *home*, if there is a readable one."""
    with suppress(OSError, ConfigurationError):
        return _read(home.expanduser() / NAME)
    return None


def _make(place: Path) -> str:
    text = f"rtl_{secrets.token_urlsafe(32)}"
    # Written under another name first, so that a reader finds all of it or nothing.
    draft = place.with_name(f"{NAME}.{secrets.token_hex(6)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text + "\n")
        with suppress(FileExistsError):  # another process was first: its token counts
            os.link(draft, place)
    finally:
        draft.unlink()
    return _read(place)


def _read(place: Path) -> str:
    descriptor = os.open(place, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
        found = os.fstat(file.fileno())
        text = file.read(_LONGEST).strip()
    if stat.S_IMODE(found.st_mode) & _OTHERS or found.st_uid not in (os.geteuid(), 0):
        raise ConfigurationError(
            f"Others than its owner can read or change the token in {place}.",
            next=f"Remove it ('rm {place}'); a new one is made at the next start.",
        )
    if not _SHAPE.fullmatch(text):
        raise ConfigurationError(
            f"{place} does not hold a token.", next=f"Remove it ('rm {place}'); a new one is made at the next start."
        )
    return text


def _unfit(place: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"The token of this server cannot be kept in {place}: {(error.strerror or type(error).__name__).lower()}.",
        next="Set RETOMA_HOME to a folder of your own, or make a key with 'retoma key create', or set RETOMA_API_KEY.",
    )


def link_of(token: str) -> str:
    """A text that opens one session, and only one; to be put into a URL."""
    made, nonce = str(int(time.time())), secrets.token_hex(8)
    return f"{made}-{nonce}-{_mac(token, made, nonce)}"


def made_of(link: str, token: str) -> float | None:
    """When *link* was created, in seconds of the epoch; None when it was not made from *token*."""
    found = _LINK.fullmatch(link)
    if found is None or not hmac.compare_digest(_mac(token, found[1], found[2]), found[3]):
        return None
    return float(found[1])


def _mac(token: str, made: str, nonce: str) -> str:
    return hmac.new(token.encode(), f"retoma link {made} {nonce}".encode(), hashlib.sha256).hexdigest()
