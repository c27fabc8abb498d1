"""Folders and files for their owner alone, whatever the umask says."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

FOLDER, FILE = 0o700, 0o600
PASSAGE = 0o710
"""Of a folder through which another account may pass and in which it sees nothing: that of an embedded server."""
_WAY = 0o755


def make_private(folder: Path, *, inside: Path | None = None) -> None:
    """*folder*, made if need be, and open to its owner alone. Folders above it that are missing are made too: private
    ones *inside* that folder, and plain ones elsewhere.
    """
    for above in reversed([each for each in folder.parents if not each.exists()]):
        _make(above, FOLDER if inside is not None and above.is_relative_to(inside) else _WAY)
    _make(folder, FOLDER)
    close(folder)


def close(path: Path) -> bool:
    """Whether *path* was open to others, and is not any more. What a link leads to is left alone, and so is what
    belongs to another account, which must close it itself.
    """
    with suppress(OSError):  # gone meanwhile, or on a disk that knows no modes
        found = path.lstat()
        wanted = (FOLDER, PASSAGE) if stat.S_ISDIR(found.st_mode) else (FILE,)
        if stat.S_ISLNK(found.st_mode) or stat.S_IMODE(found.st_mode) in wanted:
            return False
        if os.geteuid() in {found.st_uid, 0}:
            path.chmod(wanted[0])
            return True
    return False


def close_all(root: Path, last: Path) -> None:
    """Close *root* and all that is in it, which is done once: *last* is closed when all the rest is, and tells it."""
    was_open = close(root)
    if not was_open and not _is_open(last):
        return
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            if (path := Path(folder, name)) != last:
                close(path)
    close(last)


def let_pass(folder: Path, group: int) -> None:
    """Let an account of *group* pass through *folder*, which is ours, and nobody else."""
    found = folder.stat()
    if found.st_gid != group:
        os.chown(folder, -1, group)
    if stat.S_IMODE(found.st_mode) != PASSAGE:
        folder.chmod(PASSAGE)


def write_private(path: Path, text: str) -> None:
    """*path* with *text*: whole or not at all, and never readable to others."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")  # several may write it at the same moment
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _make(folder: Path, mode: int) -> None:
    with suppress(FileExistsError):  # others may come at the same moment
        folder.mkdir(mode)
        # Under a umask of nothing a way would be everybody's to write to.
        folder.chmod(mode)


def _is_open(path: Path) -> bool:
    try:
        return stat.S_IMODE(path.lstat().st_mode) not in {FOLDER, FILE}
    except (FileNotFoundError, NotADirectoryError):
        return False
