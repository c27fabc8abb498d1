"""A base image made of the Debian packages of this machine, for tests that have no registry to take one from."""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
from pathlib import Path

_WANTED = ["base-files", "base-passwd", "bash", "ca-certificates", "coreutils", "dash", "libc-bin"]
_WANTED += ["libstdc++6", "netbase", "python3", "python3-venv", "tzdata"]
_LEFT_OUT = re.compile(r"/usr/share/(doc|man|locale|info|lintian)/|/__pycache__/")
_FOLDERS = ("dev", "proc", "run", "sys", "var", "var/lib", "var/tmp")
_MERGED = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


def write(file: Path) -> None:
    """Write an archive with what these packages, and those that they depend on, have installed here."""
    packages = _with_dependencies(_WANTED)
    listed = subprocess.run(["dpkg", "-L", *packages], capture_output=True, text=True, check=False).stdout.splitlines()
    places = {_merged(each) for each in listed if each.startswith("/") and not _LEFT_OUT.search(each)}
    with tarfile.open(file, "w") as archive:
        for folder in _FOLDERS:
            archive.addfile(_folder(folder))
        for name, target in _MERGED.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for place in sorted(places - {"", "etc/passwd", *_MERGED, *_FOLDERS}):
            if os.path.lexists(f"/{place}"):
                archive.add(f"/{place}", arcname=place, recursive=False)
        archive.add("/etc/ld.so.cache", arcname="etc/ld.so.cache")
        passwd = tarfile.TarInfo("etc/passwd")
        line = b"root:x:0:0:root:/:/bin/sh\n"
        passwd.size = len(line)
        archive.addfile(passwd, io.BytesIO(line))


def _with_dependencies(names: list[str]) -> list[str]:
    only = [f"--no-{each}" for each in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")]
    ran = subprocess.run(
        ["apt-cache", "depends", "--recurse", "--installed", *only, *names], capture_output=True, text=True, check=True
    )
    return sorted({line.strip() for line in ran.stdout.splitlines() if re.match(r"[a-z0-9]", line)})


def _merged(place: str) -> str:
    """Where it really is: /bin and /lib are links."""
    first, _, rest = place.strip("/").partition("/")
    return (
        f"{_MERGED[first]}/{rest}"
        if first in _MERGED and rest
        else place.strip("/").removesuffix("/.").removeprefix(".")
    )


def _folder(name: str) -> tarfile.TarInfo:
    folder = tarfile.TarInfo(name)
    folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "var/tmp" else 0o755
    return folder
