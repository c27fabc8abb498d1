"""Finds out which layers work on this machine: a child tries to break each of them."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from retoma.errors import ConfigurationError, RetomaError
from retoma.isolate.layers import REQUIRED, Layer
from retoma.system import tempfiles
from retoma.telemetry import emit
from retoma.telemetry.events import SandboxIncomplete

_SECONDS = 60.0
_MEGABYTES = 256
_CAPABILITIES = b"\nCapEff:\t0000000000000000\n"
_SILENT = b"\nNoNewPrivs:\t1\n"


async def lacking() -> dict[Layer, str]:
    """The layers that do not work here, each with what a child could do; children are sandboxed as configured."""
    from retoma.isolate.function import Isolated  # noqa: PLC0415  # which a child need not load

    with _bait() as (file, address, port):
        attempts = Isolated(attempt_all, seconds=_SECONDS, megabytes=_MEGABYTES, alone=True)
        found = await attempts.run(file, address, port, os.getpid())
    return {Layer(name): what for name, what in found.items() if what}


async def watch_over(sandbox: str) -> None:
    """At the start of a worker: report which layers children will lack, if a required one is among them; raises
    ConfigurationError when none of those may be missing.
    """
    try:
        found = await lacking()
        told = told_of(found)
    except RetomaError as error:
        found, told = dict.fromkeys(REQUIRED, ""), error.message.removesuffix(".")
    if not set(found) & set(REQUIRED):
        return
    if sandbox == "require":
        raise ConfigurationError(
            f"RETOMA_SANDBOX=require, and the children of isolated functions cannot be shut in here: {told}.",
            next="Use a kernel with Landlock and seccomp and a container that allows them, or RETOMA_SANDBOX=auto.",
        )
    emit(SandboxIncomplete(missing=told))


def told_of(found: Mapping[Layer, str]) -> str:
    return ", ".join(f"{layer} ({what})" for layer, what in found.items())


@contextmanager
def _bait() -> Iterator[tuple[str, str, int]]:
    """A file that only we can read, and two addresses with a listener."""
    with (
        tempfiles.folder() as folder,
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.socket(socket.AF_UNIX) as beside,
    ):
        file = folder / "file"
        file.write_text("retoma looks whether a child can read this")
        beside.bind(str(folder / "socket"))
        beside.listen()
        yield str(file), str(folder / "socket"), listening.getsockname()[1]


def attempt_all(file: str, address: str, port: int, parent: int) -> dict[str, str]:
    """In the child: try everything that no child may do; by layer, what succeeded, or an empty text."""
    attempts: dict[Layer, Callable[[], str]] = {
        Layer.PRIVILEGES: _hold_privileges,
        Layer.LIMITS: _raise_limits,
        Layer.ENVIRONMENT: _read_environment,
        Layer.FILES: lambda: _open_file(Path(file)),
        Layer.NETWORK: lambda: _connect(address, port),
        Layer.CALLS: _change_rights,
        Layer.PARENT: lambda: _read_parent(parent),
        Layer.PROCESSES: _count_processes,
    }
    return {layer: _outcome(attempt) for layer, attempt in attempts.items()}


def _outcome(attempt: Callable[[], str]) -> str:
    try:
        return attempt()
    except (OSError, ValueError):  # refused, as it should be
        return ""


def _hold_privileges() -> str:
    try:
        status = Path("/proc/self/status").read_bytes()
    except OSError as error:
        return f"its rights cannot be read: {error.strerror}"
    if _SILENT not in status:
        return "programs that it starts may gain rights"
    return "" if _CAPABILITIES in status else "it holds capabilities of root"


def _raise_limits() -> str:
    for which in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
        if resource.getrlimit(which)[1] == resource.RLIM_INFINITY:
            return "it can raise its own limits"
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most + 1, most + 1))
    return "it can raise its own limits"


def _read_environment() -> str:
    told = [name for name in os.environ if name.startswith(("RETOMA_", "PG", "DATABASE_"))]
    return f"it is told {', '.join(sorted(told))}" if told else ""


def _open_file(file: Path) -> str:
    file.read_bytes()
    return "it can read files of this user"


def _connect(address: str, port: int) -> str:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as beside:
        beside.connect(address)
        return "it can reach programs of this machine by their sockets"
    with suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        datagrams.sendto(b"retoma", ("127.0.0.1", port))
        return "it can send datagrams"
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return "it can open connections"


def _change_rights() -> str:
    own = Path("retoma-probe")
    own.touch()
    try:
        own.chmod(0o600)
    finally:
        own.unlink()
    return "it can change rights of files, look into other processes and leave its group"


def _read_parent(parent: int) -> str:
    with suppress(OSError):
        Path(f"/proc/{parent}/environ").read_bytes()
        return "it can read the environment of the process that started it"
    Path(f"/proc/{parent}/mem").open("rb").close()
    return "it can read the memory of the process that started it"


def _count_processes() -> str:
    if resource.getrlimit(resource.RLIMIT_NPROC)[1] == resource.RLIM_INFINITY or os.getuid() == 0:
        return "how many processes it starts is not limited"
    return ""
