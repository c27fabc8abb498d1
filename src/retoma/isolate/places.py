"""The files that a child may read: Python, its modules and the system's programs, and nothing else."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_SYSTEM = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/fonts"),
    *("/etc/localtime", "/etc/timezone", "/etc/locale.alias", "/etc/mime.types", "/etc/ssl/openssl.cnf"),
    *("/dev/urandom", "/dev/random", "/dev/zero", "/sys/devices/system/cpu", "/sys/devices/system/node"),
    # Of /proc only what describes processors and memory, and what belongs to the child.
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm/overcommit_memory", "/proc/self"),
)
DEVICES = ("/dev/null",)
_OF_PYTHON = ("bin", "lib", "lib64", "share", "pyvenv.cfg")
_OF_PACKAGES = frozenset({"site-packages", "dist-packages"})
_MODULES = (".py", ".pyc", ".so", ".pyd", ".zip")


def system() -> Iterator[Path]:
    """The programs, libraries and data files of the system and of Python."""
    yield from map(Path, _SYSTEM)
    for prefix in {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}:
        yield from (Path(prefix, name) for name in _OF_PYTHON)
    if sys.pycache_prefix:
        yield Path(sys.pycache_prefix)


def programs(private: Sequence[Path]) -> Iterator[Path]:
    """The folders of programs, and the data files of tesseract; none that contains what is *private*."""
    named = [*os.environ.get("PATH", "").split(os.pathsep), os.environ.get("TESSDATA_PREFIX", "")]
    return (each for each in map(Path, named) if each.is_absolute() and not _holds(each, private))


def modules(path: Sequence[str], wanted: str, private: Sequence[Path]) -> Iterator[Path]:
    """What can be imported from the folders of *path*: packages and modules one by one, because a program's folder may
    contain other files as well; and the module *wanted*, whatever its form.
    """
    for entry in map(Path, path):
        if entry.name in _OF_PACKAGES or entry.is_file():
            yield entry
        else:
            yield from _importable(entry, wanted.partition(".")[0], private)


def _importable(folder: Path, wanted: str, private: Sequence[Path]) -> Iterator[Path]:
    try:
        found = list(os.scandir(folder))
    except OSError:
        return
    for each in found:
        place = Path(each.path)
        named = each.name in {wanted, "__pycache__"}
        if each.name.endswith(_MODULES) or (each.is_dir() and (named or (place / "__init__.py").exists())):
            if _holds(place, private):
                yield from _importable(place, "", private)
            else:
                yield place


def _holds(place: Path, private: Sequence[Path]) -> bool:
    with suppress(OSError):
        found = place.resolve()
        return any(each == found or found in each.parents for each in private)
    return True


def open_to_others(places: Iterable[Path]) -> bool:
    """Whether a user who owns none of *places* can read them, judged by two levels."""
    return all(map(_is_open, {parent for each in places if each.exists() for parent in _leading_to(each)}))


def _leading_to(place: Path) -> Iterator[Path]:
    real = place.resolve()
    yield from (real, *real.parents)
    if real.name in _OF_PACKAGES:
        yield from real.iterdir()


def _is_open(place: Path) -> bool:
    try:
        mode = place.stat().st_mode
    except OSError:
        return False
    needed = stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
    return bool(mode & needed)
