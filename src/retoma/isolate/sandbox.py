"""A child sandboxes itself before it has seen any input: limits, privileges, network, files,
system calls, in this order.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from retoma.isolate import kernel, landlock, places, seccomp
from retoma.isolate.layers import Layer

OPEN_FILES = 256
PROCESSES = 256
"""Threads included; an OCR engine starts a dozen."""
MEGABYTE = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What a new child is told by its parent, before anything else."""

    parent: int
    folder: str
    """Its own folder: it may write to *work* inside, and read *given*."""
    path: tuple[str, ...]
    module: str
    main: dict[str, str]
    """How to load the main module, when the function is defined there."""
    megabytes: int
    processor_seconds: int
    """How much processor time it may use in its whole life."""
    sandbox: str
    read: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    user: int | None = None
    """The user to become, when we are root."""
    without: tuple[str, ...] = ()

    @property
    def work(self) -> Path:
        return Path(self.folder, "work")

    @property
    def given(self) -> Path:
        return Path(self.folder, "given")


def shut_in(letter: Letter) -> dict[str, str]:
    """Sandbox this process permanently; returns what could not be done, by layer, with the reason."""
    missing: dict[str, str] = {}

    def do(layer: Layer, act: Callable[[], None]) -> bool:
        if layer in letter.without:
            missing[layer] = "left out"
        else:
            try:
                act()
            except (OSError, KeyError) as error:
                missing[layer] = f"{type(error).__name__}: {error}"
        return layer not in missing

    private = [Path(each) for each in letter.private]
    # Look these up now: afterwards the files cannot be read.
    read = [*places.system(), *places.programs(private), *places.modules(letter.path, letter.module, private)]
    read += map(Path, [*letter.read, *letter.main.values()])
    do(Layer.LIMITS, lambda: limit_for_life(letter))
    os.chdir(letter.work)
    do(Layer.PRIVILEGES, lambda: become_nobody(letter.user))
    if do(Layer.PROCESSES, kernel.leave_network):
        do(Layer.PROCESSES, limit_processes)
    do(Layer.PRIVILEGES, kernel.drop_capabilities)
    files = do(
        Layer.FILES,
        lambda: landlock.restrict(
            read=[*read, letter.given],
            listed=map(Path, letter.path),
            write=[letter.work, *map(Path, places.DEVICES)],
        ),
    )
    own = None if files and landlock.scopes_signals() else os.getpid()
    if not do(Layer.CALLS, lambda: seccomp.install(own=own)):
        # A network namespace has no addresses, but Unix sockets in folders can still be reached from it.
        missing[Layer.NETWORK] = missing[Layer.CALLS]
    return missing


def become_nobody(user: int | None) -> None:
    """Gain no privileges any more, and give up those of root."""
    kernel.gain_nothing()
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        kernel.show()


def limit_for_life(letter: Letter) -> None:
    for which, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_FSIZE, letter.megabytes * MEGABYTE),
        (resource.RLIMIT_CPU, letter.processor_seconds),
    ):
        limit(which, most, hard=most)


def limit_processes() -> None:
    """Limit the number of processes. In a user namespace of our own only ours are counted, otherwise all of this user;
    root is never limited.
    """
    if os.getuid() == 0:
        raise PermissionError("the kernel counts no processes of root")
    limit(resource.RLIMIT_NPROC, PROCESSES, hard=PROCESSES)


def limit(which: int, soft: int, *, hard: int | None = None) -> None:
    """Set a limit, and with *hard* how far it can be raised again; never above the previous hard limit."""
    _, most = resource.getrlimit(which)
    if hard is not None:
        most = hard if most == resource.RLIM_INFINITY else min(most, hard)
    if most != resource.RLIM_INFINITY:
        soft = most if soft == resource.RLIM_INFINITY else min(soft, most)
    with suppress(ValueError):
        resource.setrlimit(which, (soft, most))
