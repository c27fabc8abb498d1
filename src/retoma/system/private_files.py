"""Folders and files for their owner alone, whatever the umask is."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

FOLDER, FILE = 0o700, 0o600
PASSAGE = 0o710
"""The mode of a folder that another account may pass through but not list: that of an embedded server."""
_WAY = 0o755


def make_private(folder: Path, *, inside: Path | None = None) -> None:
    """*folder*, created if necessary, and open to its owner alone. Missing folders above it are created too: private
    ones *inside* that folder, and plain ones elsewhere.
    """
    for above in reversed([each for each in folder.parents if not each.exists()]):
        _make(above, FOLDER if inside is not None and above.is_relative_to(inside) else _WAY)
    _make(folder, FOLDER)
    close(folder)


def close(path: Path) -> bool:
    """Close *path* to others; returns whether it was open. The target of a link is left alone, and so are files of
    another account, which must close them itself.
    """
    with suppress(OSError):  # deleted meanwhile, or on a file system without modes
        found = path.lstat()
        wanted = (FOLDER, PASSAGE) if stat.S_ISDIR(found.st_mode) else (FILE,)
        if stat.S_ISLNK(found.st_mode) or stat.S_IMODE(found.st_mode) in wanted:
            return False
        if os.geteuid() in {found.st_uid, 0}:
            path.chmod(wanted[0])
            return True
    return False


def close_all(root: Path, last: Path) -> None:
    """Close *root* and everything in it, once: *last* is closed after all the rest, and marks that it is done."""
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
    """Write *text* to *path* atomically, and never readable to others."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")  # several processes may write it at the same moment
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _make(folder: Path, mode: int) -> None:
    with suppress(FileExistsError):  # others may create it at the same moment
        folder.mkdir(mode)
        # With a umask of 0 a new folder would be writable for everybody.
        folder.chmod(mode)


def _is_open(path: Path) -> bool:
    try:
        return stat.S_IMODE(path.lstat().st_mode) not in {FOLDER, FILE}
    except (FileNotFoundError, NotADirectoryError):
        return False
