"""Checkpoints as files of a folder: ``{session_id}_checkpoint_{chapter_number}.json``, each whole or not there.

Beside them an export puts the input and a note on the session, so that the folder alone is enough to go on.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from retoma.errors import ConfigurationError
from retoma.pipelines.books.search import Candidate
from retoma.pipelines.books.verdicts import LARGEST, invalid

_BETWEEN = "_checkpoint_"
_SUFFIX = ".json"
NOTE = "_session.json"
"""The end of the name of the note on a session."""
_LONGEST = 100  # characters of one of the two names in a file's name
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe in the folder must not hold us up


def sanitised(name: str, *, safe: str = "-") -> str:
    """*name* as a part of a file's name: no separator, no leading dot, nothing a file system refuses. Others are
    written by their bytes, and what is too long is told by its hash.
    """
    told = "".join(sign if sign in safe or _plain(sign) else _escaped(sign) for sign in name)
    if told.startswith("."):
        told = f"%2E{told[1:]}"
    if len(told) <= _LONGEST:
        return told
    return f"{told[:60].rpartition('%')[0] or told[:60]}~{hashlib.sha256(name.encode()).hexdigest()[:24]}"


def _plain(sign: str) -> bool:
    return sign.isascii() and sign.isalnum()


def _escaped(sign: str) -> str:
    return "".join(f"%{byte:02X}" for byte in sign.encode("utf-8", "surrogatepass"))


def file_name(session_id: str, chapter_number: str) -> str:
    """What the checkpoint of a chapter is called."""
    return f"{session_name(session_id)}{_BETWEEN}{sanitised(chapter_number, safe='-.')}{_SUFFIX}"


def session_name(session_id: str) -> str:
    """The session in the names of its files."""
    return sanitised(session_id, safe="-_.")


@dataclass(frozen=True, slots=True)
class Named:
    """What the name of a file says; both as they stand there."""

    session: str
    chapter: str

    def is_of(self, session_id: str, chapter_number: str) -> bool:
        """Whether the file of that chapter is called so; the original system wrote both names as they are."""
        return self.session in (session_name(session_id), session_id) and self.chapter in (
            sanitised(chapter_number, safe="-."),
            chapter_number,
        )


def parsed(name: str) -> Named | None:
    """What *name* says, when it is the name of a checkpoint."""
    session, between, chapter = _text(name).removesuffix(_SUFFIX).rpartition(_BETWEEN)
    if not between or not session or not chapter or not name.endswith(_SUFFIX) or name.startswith("."):
        return None
    return Named(session, chapter)


def candidates(folder: Path, session_id: str | None = None) -> list[Candidate]:
    """The files of *folder* that are called as checkpoints, of one session or of all."""
    found = []
    for path in _listed(folder):
        told = parsed(path.name)
        if told is None or (session_id is not None and not _is_of(told.session, session_id)):
            continue
        found.append(read(path))
    return found


def _is_of(told: str, session_id: str) -> bool:
    return told in (session_name(session_id), session_id) or _text(unquote(told)) == session_id


def sessions(folder: Path) -> list[str]:
    """The sessions that the names of checkpoints speak of, and those that have a note and no checkpoint yet."""
    found: dict[str, str] = {}
    for path in _listed(folder):
        named = parsed(path.name)
        if named is not None:
            found[named.session] = found.get(named.session) or _session_cut_off(path, named.session)
        elif path.name.endswith(NOTE) and (said := _session_said(path)) and path.name == session_name(said) + NOTE:
            found.setdefault(session_name(said), said)
    return list(dict.fromkeys(id or _text(unquote(told)) for told, id in found.items()))


def _session_cut_off(path: Path, told: str) -> str:
    """The whole id of a session that *path* calls by its hash; empty for every other, or when the file does not say."""
    said = _session_said(path) if "~" in told else ""
    return said if session_name(said) == told else ""


def _session_said(path: Path) -> str:
    """The session that the file itself names; empty when it names none."""
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        said = json.loads(read(path).body)["session_id"]
        return said if isinstance(said, str) and not _NO_TEXT.search(said) else ""
    return ""


def _text(name: str) -> str:
    """*name* with a mark where it is no text: the system gives names of files byte by byte."""
    return _NO_TEXT.sub("\ufffd", name)


def _listed(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(folder.iterdir())
    except OSError as error:
        raise ConfigurationError(
            f"The folder {folder} cannot be read: {error.strerror}.", next="Name a folder with checkpoints."
        ) from None


def read(path: Path) -> Candidate:
    """The file as a candidate. That it cannot be read is a verdict, too."""
    named, name = parsed(path.name), _text(path.name)
    chapter = None if named is None or "~" in named.chapter else _text(unquote(named.chapter))
    try:
        number = os.open(path, _FLAGS)
    except FileNotFoundError:
        return Candidate(name=name, unread=invalid("file_missing", "there is no such file"), chapter_number=chapter)
    except PermissionError:
        return Candidate(name=name, unread=invalid("no_permission", "we may not read it"), chapter_number=chapter)
    except OSError as error:
        return _unreadable(name, chapter, error)
    try:
        told = os.fstat(number)
        if not stat.S_ISREG(told.st_mode):
            return _unreadable(name, chapter, OSError(0, "it is no plain file"))
        body = b""
        while len(body) <= LARGEST and (piece := os.read(number, 1 << 20)):
            body += piece
    except OSError as error:
        return _unreadable(name, chapter, error)
    finally:
        os.close(number)
    written = datetime.fromtimestamp(told.st_mtime, UTC)
    return Candidate(name=name, body=body, chapter_number=chapter, written_at=written)


def _unreadable(name: str, chapter: str | None, error: OSError) -> Candidate:
    return Candidate(name=name, unread=invalid("unreadable", error.strerror or str(error)), chapter_number=chapter)


def write(folder: Path, name: str, body: bytes) -> Path:
    """Put a file into *folder* so that whoever looks sees all of it or what was there before, even if we are killed or
    the power fails: a temporary file, to the disk, renamed, and the folder to the disk.
    """
    if not _PLAIN.fullmatch(name.replace("%", "x").replace("~", "x")):
        raise ConfigurationError(f"{name!r} is no name for a file.", next="This is a fault of ours; please tell us.")
    target = folder / name
    part = folder / f".{secrets.token_hex(8)}.part"
    try:
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(number, "wb") as file:  # noqa: PTH123 - the number is ours
            file.write(body)
            file.flush()
            os.fsync(number)
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    settle(folder)
    return target


def settle(folder: Path) -> None:
    """Have the names in *folder* outlive a power failure."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
